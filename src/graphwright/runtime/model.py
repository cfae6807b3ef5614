"""A compiled model, ready to run: checks feeds, calls the native executor once per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from graphwright import _native
from graphwright.errors import Collector, Diagnostic, FeedError, GraphwrightError
from graphwright.ir.types import dtype_of
from graphwright.lower.tasks import Instruction, Program
from graphwright.package.package import Package, Target, TensorSpec
from graphwright.package.write import write_package
from graphwright.runtime.target import load_program, native_dtype

Array = np.ndarray[Any, Any]


_KERNEL_FAULTS = {1: "an index is out of range", 2: "the model cannot run on"}
"""What the library's kernels mean by their codes."""


@dataclass(frozen=True)
class TaskTime:
    """One task of a traced run; times in nanoseconds on the monotonic clock."""

    task: int
    name: str
    start: int
    end: int
    thread: int


class RunError(GraphwrightError):
    """A kernel refused its data (an index out of range) or the machine ran out of memory."""


class Model:
    """A compiled model. Runs from any thread, several at a time; results are new arrays, inputs are only read."""

    def __init__(self, package: Package, target: Target, key: bytes | None = None, threads: int = 0) -> None:
        self.package = package
        self.target = target
        self.threads = threads
        """Threads of a run; 0 leaves it to the process (see ``graphwright.set_threads``)."""
        self._key = key
        self._native = load_program(package, target)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What it takes."""
        return self.package.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What it gives."""
        return self.package.outputs

    @property
    def program(self) -> Program:
        """Its tasks (low IR)."""
        return self.target.program

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Run on arrays in the order of :attr:`inputs`. Raises FeedError where they do not fit."""
        return tuple(self._run([self._checked(k, a) for k, a in enumerate(self._counted(arrays))]))

    def run(
        self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None, *, out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Run on named arrays; all outputs, or those named. ``out``: arrays to write outputs to."""
        arrays = self._ordered(feeds)
        names = [spec.name for spec in self.outputs]
        chosen = names if outputs is None else self._known_outputs(outputs, names)
        results = self._run(arrays, self._targets(out or {}, names))
        return {name: results[names.index(name)] for name in chosen}

    def trace(self, feeds: Mapping[str, Array], threads: int = 0) -> list[TaskTime]:
        """Run once with time stamps: every task that ran."""
        stamps = np.zeros((len(self.program.tasks), 3), np.int64)
        self._run(self._ordered(feeds), threads=threads, trace=stamps)
        return [
            TaskTime(i, task.name, int(start), int(end), int(thread))
            for i, (task, (start, end, thread)) in enumerate(zip(self.program.tasks, stamps, strict=True))
            if end
        ]

    def plan(self, shapes: Mapping[str, Sequence[int]]) -> _native.PlanInfo:
        """Sizes, offsets and chunks for inputs of these shapes."""
        ordered = [tuple(shapes[spec.name]) for spec in self.inputs]
        return self._guarded(self._native.plan, ordered, threads=max(self.threads, 1))  # type: ignore[no-any-return]

    def stats(self) -> dict[str, int]:
        """Counters of the native runtime: runs, calls into Python, plans and their cache."""
        return self._native.stats()

    def save(self, path: str | Path) -> None:
        """Write an ``.om`` file, signed with this user's key."""
        write_package(self.package, Path(path), self._key)

    # -- feeds -----------------------------------------------------------------------------------------------------

    def _counted(self, arrays: Sequence[Array]) -> Sequence[Array]:
        if len(arrays) != len(self.inputs):
            raise FeedError(
                Diagnostic("feed-count", f"{len(arrays)} arrays for {len(self.inputs)} inputs", hint=self._signature)
            )
        return arrays

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
        """The array as the native runtime takes it: right dtype, C-contiguous, no type that buffers do not know."""
        spec, plain = self.inputs[index], self._plain[index]
        if type(array) is np.ndarray and array.dtype == plain and array.flags.c_contiguous:
            return array
        array = np.asarray(array)
        if array.dtype != spec.dtype.numpy:
            raise FeedError(
                Diagnostic(
                    "feed-dtype", f"input {spec.name!r} takes {spec.dtype}, not {array.dtype}", hint=self._signature
                )
            )
        return np.ascontiguousarray(array).reshape(array.shape).view(plain)

    @cached_property
    def _plain(self) -> list[np.dtype[Any]]:
        return [native_dtype(spec.dtype) for spec in self.inputs]

    @cached_property
    def _signature(self) -> str:
        specs = (f"{s.name}: {s.dtype}{'[*]' if s.shape is None else list(s.shape)}" for s in self.inputs)
        return f"the inputs are {', '.join(specs)}"

    def _known_outputs(self, wanted: Sequence[str], names: Sequence[str]) -> Sequence[str]:
        faults = Collector(FeedError)
        for name in wanted:
            if name not in names:
                faults.add("output-name", f"there is no output {name!r}", hint=f"the outputs are {', '.join(names)}")
        faults.raise_if_any()
        return wanted

    def _targets(self, out: Mapping[str, Array], names: Sequence[str]) -> list[Array | None] | None:
        if not out:
            return None
        self._known_outputs(list(out), names)
        for name, array in out.items():
            spec = self.outputs[names.index(name)]
            if dtype_of(array) != spec.dtype or not array.flags.c_contiguous or not array.flags.writeable:
                raise FeedError(
                    Diagnostic("out", f"out[{name!r}] must be a writable C-contiguous array of {spec.dtype}")
                )
        return [out[n].view(native_dtype(s.dtype)) if n in out else None for n, s in zip(names, self.outputs, strict=True)]

    # -- the native call -------------------------------------------------------------------------------------------

    def _run(
        self,
        arrays: list[Array],
        outputs: list[Array | None] | None = None,
        threads: int = 0,
        trace: Array | None = None,
    ) -> list[Array]:
        results = self._guarded(self._native.run, arrays, outputs, threads or self.threads, False, trace)
        return [r if r.dtype == s.dtype.numpy else r.view(s.dtype.numpy) for r, s in zip(results, self.outputs, strict=True)]

    def _guarded(self, call: Any, *args: Any, **options: Any) -> Any:
        """A native call, its errors in the model's own names."""
        try:
            return call(*args, **options)
        except _native.CheckError as error:
            number, left, right = error.args
            raise FeedError(self._failed_check(self.program.shape[number], left, right)) from None
        except _native.FeedError as error:
            raise FeedError(Diagnostic("feed-shape", str(error.args[0]), hint=self._signature)) from None
        except _native.KernelError as error:
            task, code = error.args
            place = self.program.tasks[task].name
            reason = _KERNEL_FAULTS.get(code, f"the kernel gave up with code {code}")
            raise RunError(Diagnostic("kernel", reason, place)) from None
        except _native.PlanError as error:
            raise FeedError(Diagnostic("plan", f"no plan for these shapes: {error.args[0]}", hint=self._signature)) from None

    def _failed_check(self, check: Instruction, left: int, right: int) -> Diagnostic:
        return Diagnostic(
            "constraint", f"these shapes do not fit the model: {check.note} fails with {left} and {right}", hint=self._signature
        )
