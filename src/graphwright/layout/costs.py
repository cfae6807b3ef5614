"""Predicted times of image ops in row-major and in blocked layouts, on which the layout passes decide."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from graphwright.cost.images import reblock_work
from graphwright.cost.machine import Machine
from graphwright.cost.nominal import nominal
from graphwright.cost.predict import Work, predict, stream_ns
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS, Blocked
from graphwright.ir.op import Op
from graphwright.ir.symbols import Dim, SymbolTable, evaluate, product
from graphwright.records import dataclass, field

Operands = Sequence[Value | None]


@dataclass(frozen=True)
class LayoutCosts:
    """The cost model of layouts: ``lanes`` channels per block, the machine, and the ranges of symbolic sizes.

    All times are in nanoseconds.
    """

    lanes: int
    machine: Machine
    symbols: SymbolTable = field(default_factory=SymbolTable)

    def nominal(self, dim: Dim) -> int:
        """``dim`` as a number: the nominal value of a symbolic size."""
        return nominal(dim, self.symbols)

    def ns(self, work: Work) -> int:
        """The predicted time of ``work``."""
        return evaluate(predict(work, self.machine), {})

    def whole_vectors(self, count: int) -> int:
        """``count`` rounded up to whole vectors."""
        return -(-count // self.lanes) * self.lanes

    def transfer_ns(self, value: Value) -> int:
        """The time to convert ``value`` between the layouts."""
        channels = value.type.dims[CHANNELS]
        assert isinstance(channels, int)
        pixels = self.nominal(product(value.type.dims[CHANNELS + 1 :]))
        planes = self.nominal(value.type.dims[0]) * -(-channels // self.lanes)
        return self.machine.task_ns + self.ns(reblock_work(self.lanes, planes, pixels))

    def padding_ns(self, value: Value) -> float:
        """The time to read or write the padding lanes in the last block of ``value``."""
        channels = value.type.dims[CHANNELS]
        assert isinstance(channels, int)
        padding = self.nominal(value.type.bytes) * (-channels % self.lanes) // channels
        return evaluate(stream_ns(padding, self.machine), {})


@singledispatch
def saved_ns(op: Op, node: Node, form: Blocked, operands: Operands, costs: LayoutCosts) -> float:
    """The time that ``node``, whose op is ``op``, saves in the blocked layouts ``form``; negative if it loses
    time. ``operands``: the operands of ``node``, or the values outside a region that they stand for.

    Ops whose blocked kernels differ in time from the row-major ones have an implementation of their own:
    :mod:`graphwright.layout.convolution_costs`, :mod:`graphwright.layout.pool_costs`. For all other ops, only
    the padding lanes of the largest image cost time.
    """
    images = [*(node.outputs[k] for k in sorted(form.results)), *map(node.operand, sorted(form.operands))]
    # the whole image of a concatenation or split
    largest = max(images, key=lambda image: costs.nominal(image.type.dims[CHANNELS]))
    return -costs.padding_ns(largest)
