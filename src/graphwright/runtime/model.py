"""A compiled model, ready to run: checks feeds and hands them to its executor."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from graphwright import _native
from graphwright.config import Options
from graphwright.errors import Diagnostic, FeedError, PackageError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array
from graphwright.ir.pytree import METADATA
from graphwright.package.package import Package
from graphwright.records import replace
from graphwright.runtime.bindings import Bindings
from graphwright.runtime.executor import Executor, FastPath
from graphwright.runtime.forward import forward_call
from graphwright.runtime.states import StatefulExecutor, States
from graphwright.runtime.task_calls import TaskTime, record_tasks
from graphwright.support.file_kinds import FileId, file_id

if TYPE_CHECKING:
    from graphwright.runtime.crash_folder import CrashFolders
    from graphwright.runtime.memory_use import Memory


class Model:
    """An entry of a compiled package.

    Runs from any thread, several at a time, of a model with states one at a time; results are new arrays,
    inputs are only read. It can be pickled, for workers of other processes, without what states hold; as with
    any pickle, unpickle only what you trust.
    """

    def __init__(
        self,
        package: Package,
        name: str,
        executor: Executor,
        states: States,
        key: bytes | None = None,
        options: Options | None = None,
        sources: frozenset[FileId] = frozenset(),
        again: Callable[[Options], Model] | None = None,
        crash_folders: CrashFolders | None = None,
    ) -> None:
        """``executor`` runs the entry ``name`` of ``package``, on ``states`` that all entries share; ``key``
        signs the packages that it saves; ``options`` are those that it runs with; ``sources`` are the files
        that it was made from; ``again`` makes the model of the first entry once more, for copies;
        ``crash_folders`` is where crashes in its kernels are written.
        """
        self.package, self.entry, self.executor = package, package.entries[name], executor
        self._name, self._states = name, states
        self._options = options or Options()
        self._key, self._sources, self._again = key, sources, again
        self._entries: dict[str, Model] = {}
        self.recording_executor = executor
        """``executor``, or what lets crashes write the inputs of its runs."""
        if crash_folders is not None:
            self.recording_executor = _recording(executor, crash_folders, package, name, self._options)
        self._runner: Executor = self.recording_executor
        if kept := self.entry.states:
            self._runner = StatefulExecutor(self.recording_executor, self.entry.inputs, kept, states)
        self._bindings = Bindings(self.entry.feeds, self.entry.outputs)
        self._forward = forward_call(self.entry.metadata, self.entry.feeds, self.entry.outputs)

    @property
    def entries(self) -> Mapping[str, Model]:
        """The models of all entries of the package, by name: they share weights, memory of runs and states,
        and each has its own inputs, outputs and threads.
        """
        return MappingProxyType(self._entries or {self._name: self})

    def alone(self) -> Package:
        """The package of this entry without the others."""
        return self.package.only(self._name)

    @cached_property
    def _fast_path(self) -> FastPath:
        """Made at the first run: NumPy is imported with it."""
        return self._runner.fast_path(self._options.threads)

    @property
    def threads(self) -> int:
        """Threads of a run; 0 leaves it to the process (see ``graphwright.set_threads``)."""
        return self._fast_path.threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._fast_path.threads = count

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What it takes."""
        return tuple(self._bindings.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What it gives."""
        return self.entry.outputs

    @property
    def states(self) -> Mapping[str, Array]:
        """What it keeps from run to run: read-only arrays, whose elements change with the next run."""
        return self._states

    def reset(self, states: Mapping[str, Any] | None = None) -> None:
        """Let ``states`` hold copies of these arrays, and all others what they were at first: zeros, or what
        the model has for them. Raises FeedError.
        """
        self._states.reset(states or {})

    @property
    def metadata(self) -> Mapping[str, str]:
        """The source model's own texts."""
        return {name: text for name, text in self.entry.metadata.items() if name != METADATA}

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Run on arrays in the order of :attr:`inputs`, or by name, or on one dict of all: a tuple of arrays.

        A model of a PyTorch module takes the arguments of its ``forward``, tensors or arrays, in the same
        containers, and returns what it returns, with NumPy arrays for tensors and a dict for an object.
        Raises as :meth:`run` does.
        """
        forward = self._forward
        if forward is None:
            return self._called(arrays, named)
        if forward.is_flat and not named:
            return forward.result(self._called(arrays, named))
        return forward.result(self._run(self._bindings.named(forward.feeds(arrays, named)), None))

    def _called(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Array, ...]:
        results = None if named else self._fast_path(*arrays)
        return tuple(self._run(self._bindings.called(arrays, named), None)) if results is None else results

    def __repr__(self) -> str:
        from graphwright.runtime import description  # imported where a model is shown

        return description.text(self)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from graphwright.runtime import description  # imported where a model is shown

        return description.html(self)

    def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | str | None = None,
        *,
        out: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Run on named arrays; all outputs, or those named. A sequence is a list, an empty optional None.

        Arrays of other libraries are read through ``__array__`` or ``__dlpack__`` (the CPU's memory, bfloat16
        as well). Arrays have the dtype of their input; numbers and lists take it, where it holds them.

        ``out``: arrays to write outputs to; they overlap neither inputs nor each other. Raises FeedError
        where arrays do not fit, and RunError where a kernel refuses its data.
        """
        served = self._fast_path.named(feeds, outputs, out)
        if served is not None:
            return served
        bindings = self._bindings
        arrays = bindings.named(feeds)
        chosen = None if outputs is None else bindings.known(outputs)
        targets = None if out is None else bindings.targets(out, arrays)
        results = bindings.results(self._run(arrays, targets), out or {})
        return results if chosen is None else {name: results[name] for name in chosen}

    def listed(self, outputs: Sequence[str] | str | None, feeds: Mapping[str, Any]) -> list[Array]:
        """As :meth:`run`: a list in the order of ``outputs``, or of all."""
        outputs = [outputs] if isinstance(outputs, str) else outputs
        served = self._fast_path.listed(feeds, outputs)
        if served is not None:
            return served
        results = self.run(feeds, outputs)
        return [results[name] for name in (results if outputs is None else outputs)]

    def trace(self, feeds: Mapping[str, Array], threads: int = 0) -> list[TaskTime]:
        """Run once: every call of a task, in order. ``graphwright.profile`` shows more, of many runs."""
        arrays = self._bindings.named(feeds)
        return record_tasks(lambda: self._runner.run(arrays, None, threads or self.threads))[1]

    def report(self) -> str:
        """What the compiler did: passes, kernels, what runs in Python, and what was left alone and why."""
        return self.entry.report

    def memory(
        self, shapes: Mapping[str, Sequence[int]] | Sequence[int] | None = None, *, threads: int | None = None
    ) -> Memory:
        """The memory that the model holds and that a run takes, and what lies where in its arena at what
        time: plans are made, nothing runs.

        ``shapes`` are those of the inputs, by name; open sizes of inputs that are left out follow from names
        they share. Without, a model with open sizes says what it knows: gears have plans, programs for any
        size have none. ``threads`` are those of a run, if other than the model's.

        Shapes that no program takes are compiled for as in a run. Raises FeedError, and ToolchainError.
        """
        from graphwright.runtime.memory_use import memory_of  # imported where it is asked for

        used = (self.threads if threads is None else threads) or _native.threads()
        states, plans = self._states.shapes(), self._options.plan_cache
        return memory_of(self.package, self.entry, self.executor, states, shapes, used, plans)

    def trim(self) -> int:
        """Give back to the system what runs left behind: plans of shapes, and memory that no run uses.

        The bytes of that memory; the next run plans again and takes what it needs.
        """
        return self.executor.trim()

    def stats(self) -> dict[str, int]:
        """Counters: ``runs``, ``host_calls`` (entries into Python by the executor), plans and their cache."""
        return self.executor.stats()

    def save(self, target: str | os.PathLike[str] | BinaryIO) -> None:
        """Write an ``.om`` file: signed with this user's key if compiled here, else as it was when loaded.

        ``target`` is a path, where the file appears whole or not at all, or a binary file that is open for
        writing. Raises PackageError for a file that the model was made from, under any name, OSError, and
        TypeError.
        """
        from graphwright.package.write import write_package  # imported where a model is saved

        if isinstance(target, str | os.PathLike):
            path = Path(target)
            self._refuse_source(path)
            write_package(self.package, path, self._key)
        elif hasattr(target, "write"):
            write_package(self.package, target, self._key)
        else:
            raise TypeError(f"save takes a path or a binary file, not {type(target).__name__}")

    def packed(self) -> tuple[bytes, Options, str]:
        """What makes the model again: the bytes of its ``.om``, its options, and the name of its entry."""
        data = io.BytesIO()
        self.save(data)
        return data.getvalue(), replace(self._options, threads=self.threads), self._name

    def __deepcopy__(self, memo: object) -> Model:
        """A model of its own, on the same weights: these never change."""
        if self._again is None:
            raise TypeError("this model has no copies: it was not made by graphwright.compile or load")
        return self._again(replace(self._options, threads=self.threads)).entries[self._name]

    def __copy__(self) -> Model:
        return self.__deepcopy__({})

    def _refuse_source(self, path: Path) -> None:
        try:
            known = file_id(os.stat(path)) in self._sources
        except OSError:  # there is none
            return
        if known:
            message = "the model was made from this file, which the package would replace"
            raise PackageError(Diagnostic("source-file", message, str(path), "give another name"))

    def _run(self, arrays: list[Array], targets: list[Array | None] | None) -> list[Array]:
        try:
            return self._runner.run(arrays, targets, self.threads)
        except FeedError as error:
            hints = (replace(d, hint=d.hint or self._bindings.summary()) for d in error.diagnostics)
            raise FeedError(*hints) from None


def make_models(
    package: Package,
    executors: Mapping[str, Executor],
    key: bytes | None,
    options: Options,
    sources: frozenset[FileId],
    again: Callable[[Options], Model],
) -> Model:
    """A model for each entry of ``package``, which ``executors`` run by name; that of the first."""
    specs = {spec.name: spec for entry in package.entries.values() for spec in entry.states}
    states = States(specs.values(), package.starts())
    folders = None if options.crash_dir is None else _crash_folders(package, key, options)
    models = {
        name: Model(package, name, executor, states, key, options, sources, again, folders)
        for name, executor in executors.items()
    }
    if len(models) > 1:  # one alone would only refer to itself
        for model in models.values():
            model._entries = models
    return next(iter(models.values()))


def _crash_folders(package: Package, key: bytes | None, options: Options) -> CrashFolders | None:
    from graphwright.runtime.crash_folder import prepared  # imported where crashes are written

    return prepared(package, key, options)


def _recording(
    executor: Executor, folders: CrashFolders, package: Package, name: str, options: Options
) -> Executor:
    from graphwright.runtime.crash_folder import RecordingExecutor  # imported where crashes are written

    return RecordingExecutor(executor, folders, package, name, options)
