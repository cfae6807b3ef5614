"""Ops with regions: those that choose among them, repeat one, or call one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from graphwright.ir.op import Array, Fact, Inference, Op, family
from graphwright.ir.types import TensorType
from graphwright.records import dataclass

if TYPE_CHECKING:
    from graphwright.ir.exporter import Exporter
    from graphwright.ir.graph import Value

RunRegion = Callable[[int, Sequence[Array | None]], tuple[Array, ...]]
"""Runs region number ``n`` on arrays: its outputs."""


@family
class RegionOp(Op):
    """Base of ops with regions. They define ``region_inputs`` and ``infer_regions``, which stands for
    ``infer``, and have no ``reference``.
    """

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        """What region number ``region`` receives, given the node's inputs."""
        raise NotImplementedError(self.name)

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        """Facts of the node's outputs, given those of each region's outputs."""
        raise NotImplementedError(self.name)

    def captured_operands(self, inputs: int) -> int:
        """How many of its ``inputs`` operands, the last ones, go to all regions as last inputs."""
        return 0

    def selected_region(self, *facts: Any) -> int | None:
        """The number of the one region that runs, once, on the captured operands; None where the facts of
        the operands do not decide it.
        """
        return None

    def with_results(self, kept: Sequence[int]) -> Op | None:
        """The op of a node that has the results ``kept`` alone, as each region has them; None if it needs
        all.
        """
        return None


@dataclass(frozen=True)
class LoopCarried:
    """Values that a region's outputs hand to its inputs in its next run: how many, and where they begin among
    the node's inputs, the region's inputs and the region's outputs.
    """

    count: int
    start: int
    receive: int
    result: int


@family
class LoopOp(RegionOp):
    """Base of ops that run their one region again and again, each time on what it gave. They define all of
    its methods.

    What the region receives of that is only known once inference has found types that hold in every run
    (:mod:`graphwright.ir.loop_types`): ``region_inputs`` has None there.
    """

    def loop_carried(self) -> LoopCarried:
        """What the region hands to its own next run."""
        raise NotImplementedError(self.name)

    def repeat(
        self, run: RunRegion, arrays: Sequence[Array | None], types: Sequence[TensorType]
    ) -> tuple[Array, ...]:
        """As a ``reference``: the outputs, of ``types``, by running regions."""
        raise NotImplementedError(self.name)

    def limits(self, arrays: Sequence[Array | None]) -> tuple[int, bool]:
        """How many runs there are at most, and whether a condition allows the first."""
        raise NotImplementedError(self.name)

    def no_rows(self, types: Sequence[TensorType]) -> list[Array]:
        """What it scans where there was no run; ``types`` are those of all outputs."""
        raise NotImplementedError(self.name)


@family
class CallOp(RegionOp):
    """Computes its one region, once; region inputs are the node's inputs in order. Inlining it is right."""

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
            raise at.fail(f"one region with {self.results} outputs is needed")
        return tuple(outputs[0])


def _export(e: Exporter, op: CallOp, *operands: Value) -> Any:
    return e.call(*operands)


CallOp.to_onnx = _export


def region_op(op: Op) -> RegionOp:
    """``op``, of a node that has regions, as what such ops offer; NotImplementedError if it is none."""
    if not isinstance(op, RegionOp):
        raise NotImplementedError(f"{op.name} has no regions")
    return op
