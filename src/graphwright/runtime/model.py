"""A compiled model, ready to run: checks feeds and hands them to its device."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from graphwright.config import Options
from graphwright.errors import Diagnostic, FeedError, PackageError
from graphwright.file_kinds import FileId, file_id
from graphwright.ir.arrays import Array
from graphwright.package.package import Package, TensorSpec
from graphwright.records import replace
from graphwright.runtime.devices.base import Device, Entry, TaskTime
from graphwright.runtime.ports import Ports


class Model:
    """A compiled model.

    Runs from any thread, several at a time; results are new arrays, inputs are only read. It can be pickled,
    for workers of other processes; as with any pickle, unpickle only what you trust.
    """

    def __init__(
        self,
        package: Package,
        device: Device,
        key: bytes | None = None,
        options: Options | None = None,
        sources: frozenset[FileId] = frozenset(),
    ) -> None:
        """``key`` signs the packages that it saves; ``options`` are those that it runs with; ``sources`` are
        the files that it was made from.
        """
        self.package = package
        self.device = device
        self._key, self._sources = key, sources
        self._ports = Ports(package.inputs, package.outputs)
        self._options = options or Options()

    @cached_property
    def _entry(self) -> Entry:
        """Made at the first run: NumPy is imported with it."""
        return self.device.entry(self._options.threads)

    @property
    def threads(self) -> int:
        """Threads of a run; 0 leaves it to the process (see ``graphwright.set_threads``)."""
        return self._entry.threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._entry.threads = count

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What it takes."""
        return self.package.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What it gives."""
        return self.package.outputs

    @property
    def metadata(self) -> Mapping[str, str]:
        """The source model's own texts."""
        return self.package.metadata

    def __call__(self, *arrays: Any, **named: Any) -> tuple[Array, ...]:
        """Run on arrays in the order of :attr:`inputs`, or by name, or on one dict of all. Raises as
        :meth:`run` does.
        """
        results = None if named else self._entry(*arrays)
        return tuple(self._run(self._ports.called(arrays, named), None)) if results is None else results

    def __repr__(self) -> str:
        return str(_description().text(self))

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return str(_description().html(self))

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
        served = None if out else self._entry.named(feeds, outputs)
        if served is not None:
            return served
        ports, out = self._ports, out or {}
        arrays = ports.named(feeds)
        chosen = None if outputs is None else ports.known(outputs)
        results = ports.results(self._run(arrays, ports.targets(out, arrays) if out else None), out)
        return results if chosen is None else {name: results[name] for name in chosen}

    def listed(self, outputs: Sequence[str] | str | None, feeds: Mapping[str, Any]) -> list[Array]:
        """As :meth:`run`: a list in the order of ``outputs``, or of all."""
        outputs = [outputs] if isinstance(outputs, str) else outputs
        served = self._entry.listed(feeds, outputs)
        if served is not None:
            return served
        results = self.run(feeds, outputs)
        return [results[name] for name in (results if outputs is None else outputs)]

    def trace(self, feeds: Mapping[str, Array], threads: int = 0) -> list[TaskTime]:
        """Run once with time stamps: every task that ran."""
        return self.traced(feeds, threads=threads)[1]

    def traced(
        self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None, *, threads: int = 0
    ) -> tuple[list[Array], list[TaskTime]]:
        """As :meth:`listed` and :meth:`trace`, of one run."""
        names = self._ports.known(self._ports.names if outputs is None else outputs)
        arrays, times = self.device.traced(self._ports.named(feeds), threads or self.threads)
        results = self._ports.results(arrays, {})
        return [results[name] for name in names], times

    def report(self) -> str:
        """What the compiler did: passes, kernels, what runs in Python, and what was left alone and why."""
        return self.package.report

    def trim(self) -> int:
        """Give back to the system what runs left behind: plans of shapes, and memory that no run uses.

        The bytes of that memory; the next run plans again and takes what it needs.
        """
        return self.device.trim()

    def stats(self) -> dict[str, int]:
        """Counters: ``runs``, ``host_calls`` (entries into Python by the executor), plans and their cache."""
        return self.device.stats()

    def save(self, target: str | os.PathLike[str] | BinaryIO) -> None:
        """Write an ``.om`` file: signed with this user's key if compiled here, else as it was when loaded.

        ``target`` is a path, where the file appears whole or not at all, or a binary file that is open for
        writing. Raises PackageError for a file that the model was made from, under any name, and OSError.
        """
        write = importlib.import_module("graphwright.package.write").write_package
        if isinstance(target, str | os.PathLike):
            path = Path(target)
            self._refuse_source(path)
            write(self.package, path, self._key)
        else:
            write(self.package, target, self._key)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled as the bytes of its ``.om`` and its options; made again by
        :func:`graphwright.loading.unpickled`.
        """
        data = io.BytesIO()
        self.save(data)
        options = replace(self._options, threads=self.threads)
        return importlib.import_module("graphwright.loading").unpickled, (data.getvalue(), options)

    def __deepcopy__(self, memo: object) -> Model:
        """A model of its own, on the same weights: these never change."""
        options = replace(self._options, threads=self.threads)
        made: Model = importlib.import_module("graphwright.loading").opened(
            self.package, options, sources=self._sources
        )
        made._key = self._key
        return made

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
            return self.device.run(arrays, targets, self.threads)
        except FeedError as error:
            hints = (replace(d, hint=d.hint or self._ports.summary()) for d in error.diagnostics)
            raise FeedError(*hints) from None


def _description() -> Any:
    """Imported when a model is shown."""
    return importlib.import_module("graphwright.runtime.description")
