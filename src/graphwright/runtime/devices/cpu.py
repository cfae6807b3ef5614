"""The CPU executor: each run is one call of the native runtime."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

from graphwright import _native
from graphwright.errors import Diagnostic, FeedError
from graphwright.executable.nodes import SIZE_INPUT, Program
from graphwright.executable.specs import static_shapes
from graphwright.executable.target_code import TargetCode
from graphwright.ir.arrays import Array
from graphwright.package.weights import Weights
from graphwright.runtime.devices.load_program import Shared, load_program
from graphwright.runtime.executor import Executor, ProgramPlan, RunError, Shapes, out_of_memory

if TYPE_CHECKING:
    from graphwright.low_ir.tasks import Instruction, TaskGraph

T = TypeVar("T")
_AnyShapes = Sequence[Sequence[int]]
_KERNEL_FAULTS = {
    1: "an index is out of range",
    2: "it does not support these sizes",
    3: "it would access memory outside its operands",
}
"""Return codes of the library's kernels; the runtime uses 3 for a kernel that it did not launch."""
_TOO_LARGE = "the size in bytes of a tensor of this shape exceeds 64 bits"
_UNFIT = "the model chose a branch that cannot run on inputs of these shapes"
_BRANCH_FAULTS = {
    "gw_fail": _UNFIT,
    "gw_require_equal": f"{_UNFIT}: sizes that have to be equal differ",
    "gw_require_at_most": f"{_UNFIT}: a size is too small",
}


class Cpu(Executor):
    """Runs the code of a program for one target in the native runtime."""

    def __init__(
        self, program: Program, target: TargetCode, weights: Weights, shared: Shared | None = None
    ) -> None:
        """``shared`` are the arenas and libraries that it shares with other programs of the model."""
        self._program, self._target = program, target
        self._native = load_program(program, target, weights, shared or Shared())

    @property
    def task_graph(self) -> TaskGraph:
        """The tasks, for inspection."""
        return self._target.task_graph

    def fast_path(self, threads: int) -> _native.FastPath:
        """As :meth:`Executor.fast_path`, in native code."""
        inputs, outputs = self._program.inputs, self._program.outputs
        return _native.FastPath(
            self._native,
            tuple(spec.name for spec in inputs),
            tuple(spec.dtype.numpy for spec in inputs),
            tuple(spec.name for spec in outputs),
            threads,
        )

    def tensor_path(
        self,
        type: type,
        inputs: list[tuple[int, int, int, tuple[int, ...] | None]],
        outputs: list[tuple[int, int]],
        frozen: list[tuple[int, int]],
        arguments: tuple[object, ...],
        threads: int,
        is_lazy: bool,
    ) -> _native.TensorFastPath:
        """As :meth:`fast_path`, for tensors of ``type``: see :class:`graphwright._native.TensorFastPath`."""
        return _native.TensorFastPath(
            self._native, type, inputs, outputs, frozen, arguments, threads, is_lazy
        )

    def run(
        self,
        arrays: Sequence[Array],
        outputs: Sequence[Array | None] | None,
        threads: int,
        *,
        poison: bool = False,
    ) -> list[Array]:
        """As :meth:`Executor.run`. ``poison`` is for tests: it fills each buffer with NaN after its
        last use.
        """
        try:
            return self._native.run(arrays, outputs, threads, poison)
        except (_native.NativeError, MemoryError) as error:
            self._explain(error, [array.shape for array in arrays])

    def plan(self, shapes: Sequence[Sequence[int]], threads: int) -> _native.PlanInfo:
        """Sizes, offsets and chunks for inputs of ``shapes``. Raises FeedError."""
        return self._guarded(shapes, lambda: self._native.plan(shapes, threads))

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        if shapes is None:
            shapes = static_shapes(self._program.inputs)
        plan = None if shapes is None else self.plan(shapes, threads)
        return [ProgramPlan("", self._program, self._target, shapes, plan)]

    def trim(self) -> int:
        return self._native.trim()

    def stats(self) -> dict[str, int]:
        return self._native.stats()

    def _guarded(self, shapes: _AnyShapes, call: Callable[[], T]) -> T:
        try:
            return call()
        except (_native.NativeError, MemoryError) as error:
            self._explain(error, shapes)

    def _explain(self, error: Exception, shapes: _AnyShapes) -> NoReturn:
        """Raises the native ``error`` of a run on inputs of ``shapes`` as an error with the model's names."""
        if isinstance(error, _native.CheckError):
            raise FeedError(*self._failed_checks(shapes, *error.args)) from None
        if isinstance(error, _native.FeedError):
            raise FeedError(Diagnostic("feed-shape", self._with_names(error.args[0]))) from None
        if isinstance(error, _native.PlanError):
            names = [spec.name for spec in self._program.inputs]
            given = ", ".join(map(_fed_text, names, shapes))
            message = f"no memory plan for inputs of {given}: {self._with_names(error.args[0])}"
            raise FeedError(Diagnostic("plan", message)) from None
        if isinstance(error, _native.KernelError):
            task, code, *details = error.args
            reason = self._kernel_fault(task, code, *details)
            raise RunError(Diagnostic("kernel", reason, self._target.task_graph.tasks[task].name)) from None
        raise out_of_memory(error) from None

    def _kernel_fault(self, task: int, code: int, *details: int) -> str:
        """The meaning of a kernel's return ``code`` and ``details``. Kernels of plugins define their own
        codes.
        """
        graph = self._target.task_graph
        kernel = graph.kernels[graph.tasks[task].kernel]
        if kernel.is_plugin:
            return f"kernel {kernel.symbol} of {kernel.plugin} returned {code}"
        if kernel.symbol in _BRANCH_FAULTS:
            return _BRANCH_FAULTS[kernel.symbol]
        return _KERNEL_FAULTS.get(code, f"the kernel failed with code {code}") + _range_text(*details)

    def _failed_checks(self, shapes: _AnyShapes, number: int, left: int, right: int) -> list[Diagnostic]:
        """The error of the check at instruction ``number`` of the shape program, and of later checks that
        would fail as well; ``left`` and ``right`` are the values that it compared.
        """
        graph = self._target.task_graph
        check = graph.shape[number]
        if check.code.name.startswith("GUARD"):
            return [Diagnostic("guard", check.note)]
        if re.match(r"axis \d+ of ", check.note):
            return [Diagnostic("constraint", self._axis_text(check, left, right))]
        notes = [each.note for each in graph.shape if each.code.name.startswith("CHECK")]
        # imports the algebra of sizes
        from graphwright.runtime.devices.constraint_errors import constraint_errors

        return constraint_errors(notes[notes.index(check.note) :], self._program.inputs, shapes)

    def _axis_text(self, check: Instruction, left: int, right: int) -> str:
        graph = self._target.task_graph
        first, second = graph.shape[check.a].code.name, graph.shape[check.b].code.name
        if first != "DIM":
            return f"{check.note}, but is {right}"
        here = f" (here {right})" if check.code.name == "CHECK_EQ" and second != "CONST" else ""
        return f"{check.note}{here}, but is {left}"

    def _with_names(self, text: str) -> str:
        """A native message with the names of values and nodes in place of ``input 3`` or ``task 3``."""
        graph = self._target.task_graph
        named: dict[str, Callable[[int], str]] = {
            "input": lambda number: repr(graph.inputs[number].name),
            "output": lambda number: f"output {graph.outputs[number].name!r}",
            "buffer": lambda number: f"value {graph.buffers[number].name!r}",
            "task": lambda number: f"node {graph.tasks[number].name!r}",
        }
        text = re.sub(r"int64 overflow at instruction \d+ of the shape program", _TOO_LARGE, text)
        numbered = rf"\b({'|'.join(named)}) (\d+)"
        return re.sub(numbered, lambda found: named[found[1]](int(found[2])), text)


def _range_text(*details: int) -> str:
    """The number in its data that a kernel rejected, and the range that it must be in."""
    if not details:
        return ""
    number, least, most = details
    return f": {number}, which must be from {least} to {most}"


def _fed_text(name: str, shape: Sequence[int]) -> str:
    """An input of a program with its shape; an input that only passes a size is shown as that number."""
    found = name.removeprefix(SIZE_INPUT)
    return f"{name} {tuple(shape)}" if found == name else f"{found} = {shape[0]}"
