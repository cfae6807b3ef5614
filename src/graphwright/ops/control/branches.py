"""The base class of If and Case, and the inference of results that any of several regions may compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Fact, Inference, family
from graphwright.ir.op.region_op import RegionOp
from graphwright.ir.symbols import Dim
from graphwright.ir.types import TensorType
from graphwright.ops.core.known_elements import fact_of_parts
from graphwright.records import replace


@family
class BranchOp(PaddingRule, RegionOp):
    """Base class of ops that run one of their regions. Operand 0 selects the region; the region receives the
    other operands.
    """

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        return inputs[1:]

    def captured_operands(self, inputs: int) -> int:
        return inputs - 1

    def padding_leak(self, node: Node, padded: Padded) -> str:
        return "its condition is padded" if padded.axes(node.operand(0)) else ""


def selector(fact: Fact) -> Any:
    """The element of a constant operand that selects a branch; None if it is not constant. Raises ValueError
    if it does not have exactly one element.
    """
    if fact.data is None:
        return None
    if fact.data.size != 1:
        raise ValueError(f"the operand that selects a branch is {fact.type}; it must have one element")
    return fact.data.item()


def joined(at: Inference, outputs: Sequence[Sequence[Fact]], results: int) -> tuple[Fact, ...]:
    """The facts of the results of a node, given those of the outputs of each region. Sizes that differ become
    new symbols; if ranks differ, the rank is unknown.
    """
    if any(len(facts) != results for facts in outputs):
        counts = " and ".join(str(len(facts)) for facts in outputs)
        raise at.fail(f"its regions have {counts} outputs; all must have {results}")
    return tuple(_join(at, index, facts) for index, facts in enumerate(zip(*outputs, strict=True)))


def _join(at: Inference, index: int, facts: Sequence[Fact]) -> Fact:
    """The fact of result ``index``, which has one of ``facts``."""
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
    # equal constants are one array
    data = first.data if all(fact.data is first.data for fact in facts) else None
    joined_fact = fact_of_parts(TensorType(first.dtype, tuple(dims)), _common_elements(facts))
    return replace(joined_fact, data=data) if isinstance(joined_fact, Fact) else Fact(joined_fact, data=data)


def _common_elements(facts: Sequence[Fact]) -> Sequence[Dim | None]:
    """The elements that are equal in all ``facts``, None for others."""
    parts = [fact.partial_elements if fact.elements is None else fact.elements for fact in facts]
    if any(part is None for part in parts) or len({len(part) for part in parts if part is not None}) > 1:
        return (None,)
    columns = zip(*(part for part in parts if part is not None), strict=True)
    return [row[0] if all(element == row[0] for element in row) else None for row in columns]
