"""Ops with regions: those that select a region, repeat one, or call one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from graphwright.ir.op.contract import Op
from graphwright.ir.op.inference import Array, Fact, Inference
from graphwright.ir.op.registry import family
from graphwright.ir.types import TensorType
from graphwright.records import dataclass

if TYPE_CHECKING:
    from graphwright.ir.graph import Value
    from graphwright.ir.op.exporter import Exporter

RunRegion = Callable[[int, Sequence[Array | None]], tuple[Array, ...]]
"""Runs region ``n`` on arrays and returns its outputs."""


@family
class RegionOp(Op):
    """Base class of ops with regions. Subclasses define ``region_inputs`` and, instead of ``infer``,
    ``infer_regions``; they have no ``reference``.
    """

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        """The facts of the inputs of region ``region``, given the facts of the inputs of the node."""
        raise NotImplementedError(self.name)

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        """The facts of the outputs of the node, given the facts of the outputs of each region."""
        raise NotImplementedError(self.name)

    def captured_operands(self, inputs: int) -> int:
        """The number of captured operands. These are the last of the ``inputs`` operands; all regions receive
        them as their last inputs.
        """
        return 0

    def selected_region(self, *facts: Any) -> int | None:
        """The only region that runs, exactly once and on the captured operands; None if the facts of the
        operands do not determine it.
        """
        return None

    def with_results(self, kept: Sequence[int]) -> Op | None:
        """The op with only the results ``kept``, which correspond to region outputs; None if it needs all
        results.
        """
        return None


@dataclass(frozen=True)
class LoopCarried:
    """Values that region outputs pass to region inputs in the next iteration: their number, and where they
    begin among the inputs of the node, the inputs of the region and the outputs of the region.
    """

    count: int
    start: int
    receive: int
    result: int

    @property
    def starts(self) -> slice:
        """The positions of the start values among the inputs of the node."""
        return slice(self.start, self.start + self.count)

    @property
    def received(self) -> slice:
        """The positions of the values among the inputs of the region."""
        return slice(self.receive, self.receive + self.count)

    @property
    def results(self) -> slice:
        """The positions of the values for the next iteration among the outputs of the region."""
        return slice(self.result, self.result + self.count)


@family
class LoopOp(RegionOp):
    """Base class of ops that repeat their one region, each time on the results of the previous
    iteration.

    Types of loop-carried values are known only after inference has found types that hold in every iteration
    (:mod:`graphwright.ir.inference.loop_types`): ``region_inputs`` returns None for them.
    """

    def loop_carried(self) -> LoopCarried:
        """Where the loop-carried values are."""
        raise NotImplementedError(self.name)

    def repeat(
        self, run: RunRegion, arrays: Sequence[Array | None], types: Sequence[TensorType]
    ) -> tuple[Array, ...]:
        """The reference of the loop: the outputs, of ``types``, computed by running regions."""
        raise NotImplementedError(self.name)

    def limits(self, arrays: Sequence[Array | None]) -> tuple[int, bool]:
        """The largest number of iterations, and whether the condition allows the first one."""
        raise NotImplementedError(self.name)

    def no_rows(self, types: Sequence[TensorType]) -> list[Array]:
        """The scan outputs of a loop without iterations. ``types``: the types of all outputs."""
        raise NotImplementedError(self.name)


@family
class CallOp(RegionOp):
    """Computes its one region once, on the inputs of the node in order. Inlining it is always valid."""

    results: int

    def output_count(self) -> int:
        return self.results

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        return inputs

    def captured_operands(self, inputs: int) -> int:
        return inputs

    def selected_region(self, *facts: Fact | None) -> int | None:
        return 0

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        if len(outputs) != 1 or len(outputs[0]) != self.results:
            raise at.fail(f"it must have one region with {self.results} outputs")
        return tuple(outputs[0])


def _export(e: Exporter, op: CallOp, *operands: Value) -> Any:
    return e.call(*operands)


CallOp.to_onnx = _export


def region_op(op: Op) -> RegionOp:
    """``op`` as a RegionOp. Raises NotImplementedError if it is not one."""
    if not isinstance(op, RegionOp):
        raise NotImplementedError(f"{op.name} has no regions")
    return op
