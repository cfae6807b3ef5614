"""A compiled model, ready to run: checks feeds and hands them to its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from graphwright.errors import Collector, Diagnostic, FeedError
from graphwright.ir.types import dtype_of
from graphwright.package.package import Package, TensorSpec
from graphwright.package.write import write_package
from graphwright.runtime.devices.base import Device, TaskTime

Array = np.ndarray[Any, Any]


class Model:
    """A compiled model. Runs from any thread, several at a time; results are new arrays, inputs are only read."""

    def __init__(self, package: Package, device: Device, key: bytes | None = None, threads: int = 0) -> None:
        self.package = package
        self.device = device
        self.threads = threads
        """Threads of a run; 0 leaves it to the process (see ``graphwright.set_threads``)."""
        self._key = key

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

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Run on arrays in the order of :attr:`inputs`. Raises FeedError where they do not fit."""
        if len(arrays) != len(self.inputs):
            message = f"{len(arrays)} arrays for {len(self.inputs)} inputs"
            raise FeedError(Diagnostic("feed-count", message, hint=self._signature))
        return tuple(self._run([self._checked(k, array) for k, array in enumerate(arrays)]))

    def run(
        self,
        feeds: Mapping[str, Array],
        outputs: Sequence[str] | None = None,
        *,
        out: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Run on named arrays; all outputs, or those named. ``out``: arrays to write outputs to."""
        arrays = self._ordered(feeds)
        names = [spec.name for spec in self.outputs]
        chosen = self._known_outputs(names if outputs is None else outputs, names)
        results = dict(zip(names, self._run(arrays, self._targets(out or {}, names)), strict=True))
        return {name: results[name] for name in chosen}

    def trace(self, feeds: Mapping[str, Array], threads: int = 0) -> list[TaskTime]:
        """Run once with time stamps: every task that ran."""
        return self.device.trace(self._ordered(feeds), threads or self.threads)

    def stats(self) -> dict[str, int]:
        """Counters: ``runs``, ``host_calls`` (entries into Python by the executor), plans and their cache."""
        return self.device.stats()

    def save(self, path: str | Path) -> None:
        """Write an ``.om`` file, signed with this user's key if the model was compiled here."""
        write_package(self.package, Path(path), self._key)

    def _run(self, arrays: list[Array], outputs: list[Array | None] | None = None) -> list[Array]:
        results = self.device.run(arrays, outputs, self.threads)
        if not self._has_views:
            return results
        return [r.view(spec.dtype.numpy) for r, spec in zip(results, self.outputs, strict=True)]

    # -- feeds -----------------------------------------------------------------------------------------------------

    def _ordered(self, feeds: Mapping[str, Array]) -> list[Array]:
        names = [spec.name for spec in self.inputs]
        faults = Collector(FeedError)
        for name in feeds:
            if name not in names:
                faults.add("feed-name", f"there is no input {name!r}", hint=self._signature)
        for name in names:
            if name not in feeds:
                faults.add("feed-name", f"input {name!r} is missing", hint=self._signature)
        faults.raise_if_any()
        return [self._checked(k, feeds[name]) for k, name in enumerate(names)]

    def _checked(self, index: int, array: Array) -> Array:
        """The array as devices take it: right dtype, C-contiguous, of a type that the buffer protocol knows."""
        plain = self._plain[index]
        if type(array) is np.ndarray and array.dtype == plain and array.flags.c_contiguous:
            return array
        spec, array = self.inputs[index], np.asarray(array)
        if array.dtype != spec.dtype.numpy:
            message = f"input {spec.name!r} takes {spec.dtype}, not {array.dtype}"
            raise FeedError(Diagnostic("feed-dtype", message, hint=self._signature))
        return np.ascontiguousarray(array).reshape(array.shape).view(plain)

    @cached_property
    def _plain(self) -> list[np.dtype[Any]]:
        return [spec.dtype.native for spec in self.inputs]

    @cached_property
    def _has_views(self) -> bool:
        """Whether an output comes back as integers that stand for another type."""
        return any(spec.dtype.native != spec.dtype.numpy for spec in self.outputs)

    @cached_property
    def _signature(self) -> str:
        shapes = ("*" if s.shape is None else ", ".join(map(str, s.shape)) for s in self.inputs)
        return "the inputs are " + ", ".join(
            f"{s.name}: {s.dtype}[{shape}]" for s, shape in zip(self.inputs, shapes, strict=True)
        )

    def _known_outputs(self, wanted: Sequence[str], names: Sequence[str]) -> Sequence[str]:
        faults = Collector(FeedError)
        for name in wanted:
            if name not in names:
                faults.add(
                    "output-name", f"there is no output {name!r}", hint=f"the outputs are {', '.join(names)}"
                )
        faults.raise_if_any()
        return wanted

    def _targets(self, out: Mapping[str, Array], names: Sequence[str]) -> list[Array | None] | None:
        if not out:
            return None
        self._known_outputs(list(out), names)
        for spec in self.outputs:
            array = out.get(spec.name)
            if array is None:
                continue
            if dtype_of(array) != spec.dtype or not array.flags.c_contiguous or not array.flags.writeable:
                message = f"out[{spec.name!r}] must be a writable C-contiguous array of {spec.dtype}"
                raise FeedError(Diagnostic("out", message))
        return [out[s.name].view(s.dtype.native) if s.name in out else None for s in self.outputs]
