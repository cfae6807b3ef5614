"""A compiled model: checks feeds and runs them on its executor."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from graphwright import _native
from graphwright.config import Options
from graphwright.errors import Diagnostic, FeedError, GraphwrightError, PackageError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array
from graphwright.ir.pytree import METADATA
from graphwright.package.package import Package
from graphwright.records import dataclass, replace
from graphwright.runtime.events.task_calls import TaskTime, record_tasks
from graphwright.runtime.executor import Executor, FastPath
from graphwright.runtime.feeds.bindings import Bindings
from graphwright.runtime.feeds.forward import forward_call
from graphwright.runtime.states import StatefulExecutor, States
from graphwright.runtime.threads import thread_count
from graphwright.support.file_kinds import FileId, file_id

if TYPE_CHECKING:
    from graphwright.runtime.crashes.folder import CrashFolders
    from graphwright.runtime.memory_use import Memory


@dataclass(frozen=True, eq=False)
class Origin:
    """The parts that the models of a package are made from."""

    package: Package
    key: Callable[[], bytes | None]
    """The key that signs the packages that :meth:`Model.save` writes; None keeps their signature."""
    options: Options
    """The options of runs."""
    sources: frozenset[FileId]
    """The files that the package was made from, which :meth:`Model.save` does not overwrite."""
    remake: Callable[[Options], Model]
    """Makes the model of the first entry again, for copies."""


class Model:
    """A compiled model: one entry of a package.

    It can run from any thread, and several runs can be active at a time; runs of a model with states wait for
    each other. Results are new arrays, and inputs are only read. A model can be pickled for worker processes,
    without the values of its states; as with any pickle, unpickle only what you trust.
    """

    def __init__(
        self,
        origin: Origin,
        name: str,
        executor: Executor,
        states: States,
        crash_folders: CrashFolders | None = None,
    ) -> None:
        """``executor`` runs the entry ``name`` of the package of ``origin`` on ``states``, which all entries
        share. ``crash_folders`` is where crashes in kernels are written.
        """
        self.package, self.entry, self.executor = origin.package, origin.package.entries[name], executor
        self._origin, self._name, self._states = origin, name, states
        self._options = origin.options
        self._entries: dict[str, Model] = {}
        self.recording_executor = executor
        """``executor``, wrapped so that crashes write the inputs of the run if ``crash_folders`` is given."""
        if crash_folders is not None:
            self.recording_executor = _recording(executor, crash_folders, self.package, name, self._options)
        self._runner: Executor = self.recording_executor
        if kept := self.entry.states:
            self._runner = StatefulExecutor(self.recording_executor, self.entry.inputs, kept, states)
        self._bindings = Bindings(self.entry.feeds, self.entry.outputs, self.entry.metadata)
        self._forward = forward_call(self.entry.metadata, self.entry.feeds, self.entry.outputs)

    @property
    def entries(self) -> Mapping[str, Model]:
        """The models of all entries of the package, by name. They share weights, arenas and states; each has
        its own inputs, outputs and number of threads.
        """
        return MappingProxyType(self._entries or {self._name: self})

    def entry_package(self) -> Package:
        """A package with only this entry."""
        return self.package.only(self._name)

    @cached_property
    def _fast_path(self) -> FastPath:
        """Made at the first run, as it imports NumPy."""
        return self._runner.fast_path(self._options.threads)

    @property
    def threads(self) -> int:
        """The number of threads of a run; 0 uses that of the process (see ``graphwright.set_threads``).
        Setting another value than a number raises OptionError.
        """
        return self._fast_path.threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._fast_path.threads = thread_count(count)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the inputs, in order; states are not among them."""
        return tuple(self._bindings.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the outputs, in order."""
        return self.entry.outputs

    @property
    def states(self) -> Mapping[str, Array]:
        """The arrays that are kept between runs, by name: read-only views, whose elements the next run
        changes.
        """
        return self._states

    def reset(self, states: Mapping[str, Any] | None = None) -> None:
        """Sets the given states to copies of these arrays, and all others to their initial values: those that
        the model has for them, or zeros. Raises FeedError, and then changes nothing.
        """
        self._states.reset(states or {})

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the source model."""
        return {name: text for name, text in self.entry.metadata.items() if name != METADATA}

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Runs on arrays in the order of :attr:`inputs`, by name, or in one dict; returns a tuple of arrays.

        A model of a PyTorch module takes the arguments of its ``forward``, as tensors or arrays in the same
        containers, and returns the same structure with NumPy arrays for tensors and dicts for objects. Raises
        the errors of :meth:`run`.
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
        from graphwright.runtime import description  # imported on demand

        return description.text(self)

    def _repr_html_(self) -> str:
        """The HTML that notebooks show: a description, and the graph."""
        import graphwright  # imported on demand, as is what draws
        from graphwright.runtime import description

        with suppress(GraphwrightError):  # without its graph, a package is only described
            return description.html(self) + graphwright.draw(self)._repr_html_()
        return description.html(self)

    def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | str | None = None,
        *,
        out: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Runs on arrays by name and returns all outputs, or those named in ``outputs``.

        Arrays must have the dtype of their input; numbers and lists are converted if the dtype can represent
        them. Arrays of other libraries are read through ``__array__`` or ``__dlpack__`` from CPU memory,
        bfloat16 included. A value of sequence type is a list, and an empty optional is None.

        ``out`` has arrays to write outputs to, which must not overlap inputs or each other. Raises FeedError
        if arrays do not fit, and RunError if a kernel rejects its data.
        """
        served = self._fast_path.named(feeds, outputs, out)
        if served is not None:
            return served
        bindings = self._bindings
        arrays = bindings.named(feeds)
        chosen = None if outputs is None else bindings.output_names(outputs)
        targets = None if out is None else bindings.targets(out, arrays)
        results = bindings.results(self._run(arrays, targets), out or {})
        return results if chosen is None else {name: results[name] for name in chosen}

    def listed(self, outputs: Sequence[str] | str | None, feeds: Mapping[str, Any]) -> list[Array]:
        """As :meth:`run`, but returns a list in the order of ``outputs``, or of all outputs if it is None."""
        outputs = [outputs] if isinstance(outputs, str) else outputs
        served = self._fast_path.listed(feeds, outputs)
        if served is not None:
            return served
        results = self.run(feeds, outputs)
        return [results[name] for name in (results if outputs is None else outputs)]

    def trace(self, feeds: Mapping[str, Array], threads: int = 0) -> list[TaskTime]:
        """Runs once and returns each call of a task, ordered by start. ``graphwright.profile`` measures many
        runs and shows more.
        """
        arrays = self._bindings.named(feeds)
        used = thread_count(threads) or self.threads
        return record_tasks(lambda: self._runner.run(arrays, None, used))[1]

    def report(self) -> str:
        """What the compiler did: passes, kernels, nodes that run in Python, and what it did not optimize and
        why.
        """
        return self.entry.report

    def memory(
        self, shapes: Mapping[str, Sequence[int]] | Sequence[int] | None = None, *, threads: int | None = None
    ) -> Memory:
        """Predicts the memory that the model holds and that a run needs, with the place and lifetime of each
        buffer in the arena. It makes plans but runs nothing.

        ``shapes`` are the shapes of inputs by name; dimensions of other inputs follow from the symbols that
        they share. Without ``shapes``, only programs with static shapes are known: those of gears, but not
        programs with dynamic dimensions. ``threads`` replaces the model's number of threads.

        As in a run, shapes that no program accepts may be compiled for. Raises FeedError and ToolchainError.
        """
        from graphwright.runtime.memory_use import memory_of  # imported on demand

        used = (self.threads if threads is None else thread_count(threads)) or _native.threads()
        states, plans = self._states.shapes(), self._options.plan_cache
        return memory_of(self.package, self.entry, self.executor, states, shapes, used, plans)

    def trim(self) -> int:
        """Frees cached plans and memory that no run uses. Returns the bytes of memory given back to the
        system.

        The next run makes its plan again and allocates what it needs.
        """
        return self.executor.trim()

    def stats(self) -> dict[str, int]:
        """Counters: ``runs``, ``host_calls`` (calls into Python by the executor), those of the plan cache,
        and ``arena_bytes``.
        """
        return self.executor.stats()

    def save(self, target: str | os.PathLike[str] | BinaryIO) -> None:
        """Writes the package as an ``.om`` file. A model that was compiled here, also from another package,
        is signed with this user's key; a loaded one keeps its signature.

        ``target`` is a path, to which the file is written atomically, or a binary file open for writing.
        Raises PackageError for a file that the model was made from, OSError, and TypeError.
        """
        from graphwright.package.write import write_package  # imported on demand

        if isinstance(target, str | os.PathLike):
            path = Path(target)
            self._refuse_source(path)
            write_package(self.package, path, self._origin.key())
        elif hasattr(target, "write"):
            write_package(self.package, target, self._origin.key())
        else:
            raise TypeError(f"save takes a path or a binary file, not {type(target).__name__}")

    def packed(self) -> tuple[bytes, Options, str]:
        """All that is needed to make the model again: the bytes of its ``.om``, its options and its entry's
        name.
        """
        data = io.BytesIO()
        self.save(data)
        return data.getvalue(), replace(self._options, threads=self.threads), self._name

    def __deepcopy__(self, memo: object) -> Model:
        """An independent model that shares the weights, which are constant."""
        return self._origin.remake(replace(self._options, threads=self.threads)).entries[self._name]

    def __copy__(self) -> Model:
        return self.__deepcopy__({})

    def _refuse_source(self, path: Path) -> None:
        try:
            known = file_id(os.stat(path)) in self._origin.sources
        except OSError:  # no such file
            return
        if known:
            message = "the package would overwrite the file that the model was made from"
            raise PackageError(Diagnostic("source-file", message, str(path), "choose another name"))

    def _run(self, arrays: list[Array], targets: list[Array | None] | None) -> list[Array]:
        try:
            return self._runner.run(arrays, targets, self.threads)
        except FeedError as error:
            hints = (replace(d, hint=d.hint or self._bindings.summary()) for d in error.diagnostics)
            raise FeedError(*hints) from None


def make_models(origin: Origin, executors: Mapping[str, Executor]) -> Model:
    """Makes a model for each entry of the package of ``origin``; ``executors`` are by entry. Returns that of
    the first entry.
    """
    package = origin.package
    specs = {spec.name: spec for entry in package.entries.values() for spec in entry.states}
    states = States(specs.values(), package.starts())
    folders = None if origin.options.crash_dir is None else _crash_folders(origin)
    models = {name: Model(origin, name, executor, states, folders) for name, executor in executors.items()}
    if len(models) > 1:  # a single model would only refer to itself
        for model in models.values():
            model._entries = models
    return next(iter(models.values()))


def _crash_folders(origin: Origin) -> CrashFolders | None:
    from graphwright.runtime.crashes.folder import prepared  # imported only with the option crash_dir

    return prepared(origin.package, origin.key(), origin.options)


def _recording(
    executor: Executor, folders: CrashFolders, package: Package, name: str, options: Options
) -> Executor:
    # imported only with the option crash_dir
    from graphwright.runtime.crashes.folder import RecordingExecutor

    return RecordingExecutor(executor, folders, package, name, options)
