"""What ops that run one of their regions share: what is known of an output, whichever region gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwright.ir.graph import Node
from graphwright.ir.op import Fact, Inference, Op, family
from graphwright.ir.padding import Padded, PaddingRule
from graphwright.ir.region_op import RegionOp
from graphwright.ir.symbols import Dim
from graphwright.ir.types import TensorType
from graphwright.ops.core.common import fact_of_parts
from graphwright.records import replace


@family
class BranchOp(PaddingRule, RegionOp):
    """Base of ops that run one of their regions: operand 0 chooses, and all receive the others."""

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        return inputs[1:]

    def captured_operands(self, inputs: int) -> int:
        return inputs - 1

    def with_results(self, kept: Sequence[int]) -> Op:
        return replace(self, results=len(kept))  # type: ignore[call-arg]  # all of them have the attribute

    def padding_leak(self, node: Node, padded: Padded) -> str:
        return "its condition is padded" if padded.axes(node.operand(0)) else ""


def chosen_by(fact: Fact) -> Any:
    """The one element of what chooses a branch; None where it is not known. Raises ValueError for others."""
    if fact.data is None:
        return None
    if fact.data.size != 1:
        raise ValueError(f"a branch is chosen by one element, not by {fact.type}")
    return fact.data.item()


def joined(at: Inference, outputs: Sequence[Sequence[Fact]], results: int) -> tuple[Fact, ...]:
    """Facts of the node's outputs, given those of each region's: sizes that differ become new symbols, ranks
    that differ an unknown one.
    """
    if any(len(facts) != results for facts in outputs):
        counts = " and ".join(str(len(facts)) for facts in outputs)
        raise at.fail(f"its regions have {counts} outputs; all need {results}")
    return tuple(_join(at, index, facts) for index, facts in enumerate(zip(*outputs, strict=True)))


def _join(at: Inference, index: int, facts: Sequence[Fact]) -> Fact:
    """What is known of output ``index``, which is one of ``facts``."""
    first, dtypes = facts[0], list(dict.fromkeys(fact.dtype for fact in facts))
    if len(dtypes) > 1:
        one, other = dtypes[:2]
        raise at.fail(f"output {index} is {one} in one branch and {other} in the other")
    shapes = [fact.type.shape for fact in facts]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len(set(map(len, known))) > 1:
        return Fact(TensorType(first.dtype, None))
    dims: list[Dim] = [
        sizes[0] if len(set(sizes)) == 1 else at.symbols.fresh("branch") for sizes in zip(*known, strict=True)
    ]
    data = first.data if all(fact.data is first.data for fact in facts) else None  # equal ones are one array
    made = fact_of_parts(TensorType(first.dtype, tuple(dims)), _shared(facts))
    return replace(made, data=data) if isinstance(made, Fact) else Fact(made, data=data)


def _shared(facts: Sequence[Fact]) -> Sequence[Dim | None]:
    """The elements that are the same whichever of ``facts`` holds, None for the others."""
    parts = [fact.partial_elements if fact.elements is None else fact.elements for fact in facts]
    if any(part is None for part in parts) or len({len(part) for part in parts if part is not None}) > 1:
        return (None,)
    columns = zip(*(part for part in parts if part is not None), strict=True)
    return [row[0] if all(element == row[0] for element in row) else None for row in columns]
