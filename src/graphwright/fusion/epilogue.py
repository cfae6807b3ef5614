"""When elementwise nodes can run inside a contraction's store: the index space is the contraction's own
output."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.fusion.axes import Nest
from graphwright.ir.graph import Node
from graphwright.ir.op import Trait
from graphwright.ir.types import F32


def epilogue_groups(anchor: Node, rest: Sequence[Node], nest: Nest) -> str | None:
    """None if ``rest`` can be the epilogue of ``anchor``, else the reason why not."""
    value = anchor.outputs[0]
    if value.type.dtype != F32:
        return "contractions of other types than f32 take no epilogue"
    if any(Trait.REDUCTION in n.op.traits for n in rest):
        return "a reduction needs whole rows, a contraction gives tiles"
    if value not in nest.reads:
        return "the contraction's result is not read"
    if nest.axes_of(nest.reads[value]) != nest.domain:
        return "the epilogue is larger than the contraction's output, or reads it in another order"
    return None
