"""Legality of an epilogue: elementwise nodes that run while a contraction stores its output tiles."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.types import F32, I8, I32, U8
from graphwright.loop_nests.nest import Nest


def epilogue_refusal(anchor: Node, rest: Sequence[Node], nest: Nest) -> Refusal | None:
    """Why ``rest`` cannot be the epilogue of ``anchor``; None if it can."""
    value = anchor.outputs[0]
    if value.type.dtype != F32 and not _sums_bytes(anchor):
        why = "only contractions of f32 or 8-bit integers support epilogues"
        return Refusal(Code.EPILOGUE_DTYPE, why)
    if any(Trait.REDUCTION in n.op.traits for n in rest):
        return Refusal(Code.EPILOGUE_REDUCTION, "a reduction needs whole rows; the contraction stores tiles")
    if value not in nest.operand_maps:
        return Refusal(Code.EPILOGUE_UNREAD, "the epilogue does not read the contraction's result")
    if nest.axes_of(nest.operand_maps[value]) != nest.domain:
        why = "the epilogue is larger than the contraction's output, or reads it in another order"
        return Refusal(Code.EPILOGUE_SHAPE, why)
    return None


def _sums_bytes(anchor: Node) -> bool:
    """Whether ``anchor`` accumulates products of 8-bit integers in i32."""
    return anchor.operand(0).type.dtype in (I8, U8) and anchor.output.type.dtype == I32
