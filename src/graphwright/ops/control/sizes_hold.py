"""SizesHold."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.exporter import Exporter
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference, InferError, Op, Sample, Trait, arg, op
from graphwright.ir.symbols import Constraint, SymbolError, parse_constraint, symbol
from graphwright.ir.types import BOOL, F32, TensorType


@op("SizesHold")
class SizesHold(Op):
    """Whether the sizes of its operands fulfil all of ``relations``, texts as in ``2*h <= w``. ``axes`` names
    the axes of each operand that these speak of; other axes have no name.

    It chooses the branch of an If that was compiled for likely sizes.
    """

    relations: tuple[str, ...]
    axes: tuple[tuple[str, ...], ...]
    traits = Trait.SHAPE_ONLY

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return tuple([parse_constraint(each) for each in self.relations])  # which raise StopIteration

    def verify(self) -> None:
        try:
            used = set[str]().union(*(each.names for each in self.constraints))
        except (SymbolError, StopIteration, ValueError) as error:
            raise InferError(f"{list(self.relations)} are not relations of sizes") from error
        unknown = used.difference(*self.axes)
        if unknown:
            raise InferError(f"no axis is called {min(unknown)}")

    def infer(self, at: Inference, *operands: Fact) -> TensorType:
        if [len(names) for names in self.axes] != [len(operand.shape) for operand in operands]:
            raise at.fail(f"{self.axes} are not the axes of its operands")
        return TensorType(BOOL, ())

    def reference(self, *operands: Array) -> Array:
        pairs = [
            pair
            for names, array in zip(self.axes, operands, strict=True)
            for pair in zip(names, array.shape, strict=True)
        ]
        sizes = {name: size for name, size in pairs if name}
        return np.array(all(each.broken_by(sizes) is None for each in self.constraints))


_NODES = {"==": "Equal", "<=": "LessOrEqual", "!=": "Equal"}


def _export(e: Exporter, op: SizesHold, *operands: Value) -> Any:
    found = None
    for each in op.constraints:
        holds = e.emit(_NODES[each.relation], e.size(each.left), e.size(each.right), since=12)
        if each.relation == "!=":
            holds = e.emit("Not", holds)
        found = holds if found is None else e.emit("And", found, holds)
    return found


SizesHold.to_onnx = _export
_TWO = (arg(F32, 2, symbol("N")), arg(F32, 4))
SizesHold.samples = (
    Sample(SizesHold(("2*h == w", "h <= w"), (("h", ""), ("w",))), _TWO),
    Sample(SizesHold(("h != w",), (("h", ""), ("w",))), _TWO),
    Sample(SizesHold(("h < w",), (("h", ""), ("w",))), _TWO, "are not relations of sizes"),
    Sample(SizesHold(("h == k",), (("h", ""), ("w",))), _TWO, "no axis is called k"),
    Sample(SizesHold(("h == h",), (("h",), ("",))), _TWO, "are not the axes of its operands"),
)
