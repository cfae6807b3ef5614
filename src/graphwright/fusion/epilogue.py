"""When elementwise nodes can run inside a contraction's store: the index space is the contraction's own
output."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.types import F32, I8, I32, U8
from graphwright.loop_nests.nest import Nest


def epilogue_refusal(anchor: Node, rest: Sequence[Node], nest: Nest) -> Refusal | None:
    """None if ``rest`` can be the epilogue of ``anchor``, else the reason why not."""
    value = anchor.outputs[0]
    if value.type.dtype != F32 and not _sums_bytes(anchor):
        why = "only contractions of f32 and of 8-bit integers have epilogues"
        return Refusal(Code.EPILOGUE_DTYPE, why)
    if any(Trait.REDUCTION in n.op.traits for n in rest):
        return Refusal(Code.EPILOGUE_REDUCTION, "a reduction needs whole rows, the contraction writes tiles")
    if value not in nest.reads:
        return Refusal(Code.EPILOGUE_UNREAD, "the contraction's result is not read")
    if nest.axes_of(nest.reads[value]) != nest.domain:
        why = "the epilogue is larger than the contraction's output, or reads it in another order"
        return Refusal(Code.EPILOGUE_SHAPE, why)
    return None


def _sums_bytes(anchor: Node) -> bool:
    """Whether ``anchor`` forms sums of products of bytes, whose tiles are of i32."""
    return anchor.operand(0).type.dtype in (I8, U8) and anchor.output.type.dtype == I32
