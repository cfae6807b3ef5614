"""SizesHold, a guard on the sizes of tensors. An op of graphwright, without ONNX counterpart."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference, InferError, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Constraint, SymbolError, parse_constraint, symbol
from graphwright.ir.types import BOOL, F32, TensorType


@op("SizesHold")
class SizesHold(Op):
    """Whether the sizes of its operands satisfy all ``relations``, such as ``2*h <= w``: a bool scalar.

    ``axes`` are the names of the axes of each operand, empty for axes that no relation uses. The op selects
    the branch of an If that was compiled for likely sizes.
    """

    relations: tuple[str, ...]
    axes: tuple[tuple[str, ...], ...]
    traits = Trait.SHAPE_ONLY

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The relations, parsed. Raises StopIteration or SymbolError if one is invalid."""
        return tuple([parse_constraint(each) for each in self.relations])

    def verify(self) -> None:
        try:
            used = set[str]().union(*(each.names for each in self.constraints))
        except (SymbolError, StopIteration, ValueError) as error:
            raise InferError(f"{list(self.relations)} are not valid relations of sizes") from error
        unknown = used.difference(*self.axes)
        if unknown:
            raise InferError(f"no axis is named {min(unknown)}")

    def infer(self, at: Inference, *operands: Fact) -> TensorType:
        if [len(names) for names in self.axes] != [len(operand.shape) for operand in operands]:
            raise at.fail(f"the axes are {self.axes}; they must name the axes of all operands")
        return TensorType(BOOL, ())

    def reference(self, *operands: Array) -> Array:
        sizes = {
            name: size
            for names, array in zip(self.axes, operands, strict=True)
            for name, size in zip(names, array.shape, strict=True)
            if name
        }
        return np.array(all(each.broken_by(sizes) is None for each in self.constraints))


_NODES = {"==": "Equal", "<=": "LessOrEqual", "!=": "Equal"}


def _export(e: Exporter, op: SizesHold, *operands: Value) -> Any:
    result = None
    for constraint in op.constraints:
        left, right = e.size(constraint.left), e.size(constraint.right)
        holds = e.emit(_NODES[constraint.relation], left, right, since=12)
        if constraint.relation == "!=":
            holds = e.emit("Not", holds)
        result = holds if result is None else e.emit("And", result, holds)
    return result


SizesHold.to_onnx = _export
_TWO = (arg(F32, 2, symbol("N")), arg(F32, 4))
SizesHold.samples = (
    Sample(SizesHold(("2*h == w", "h <= w"), (("h", ""), ("w",))), _TWO),
    Sample(SizesHold(("h != w",), (("h", ""), ("w",))), _TWO),
    Sample(SizesHold(("h < w",), (("h", ""), ("w",))), _TWO, "are not valid relations of sizes"),
    Sample(SizesHold(("h == k",), (("h", ""), ("w",))), _TWO, "no axis is named k"),
    Sample(SizesHold(("h == h",), (("h",), ("",))), _TWO, "they must name the axes of all operands"),
)
