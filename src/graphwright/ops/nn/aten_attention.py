"""Import of PyTorch's attention on the CPU."""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import AtenImporter, Importer
from graphwright.ir.types import F32
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.nn.attention import ScaledDotProductAttention, precision_of, scaled

_MASK = 5
"""The position of the mask among the arguments of PyTorch's operator."""


def _aten_flash_attention(i: AtenImporter) -> Any:
    """A query that attends to no key gives zeros. Output 1, the logsumexp of the scores that gradients need,
    is not supported.
    """
    if i.is_used(1):
        raise i.fail("its output logsumexp is not supported")
    q, k, v, mask = i.input(0), i.input(1), i.input(2), i.optional(_MASK)
    scale = i.attr("scale")
    if scale is None:
        q, scale = scaled(i, q, q.type.dims[-1])
    op = ScaledDotProductAttention(
        float(scale), causal=bool(i.attr("is_causal")), guard="empty", precision=precision_of(q.type.dtype)
    )
    return as_dtype(i.builder, i.emit(op, *_operands(i, op, q, k, v, mask)), q.type.dtype), None


def _operands(i: Importer, op: ScaledDotProductAttention, *given: Value | None) -> list[Value | None]:
    """q, k, v and the mask, cast to f32 except for k and v in the precision of ``op``."""
    kept = [k in (1, 2) and x is not None and x.type.dtype == op.precision for k, x in enumerate(given)]
    return [
        x if x is None or keep else as_dtype(i.builder, x, F32) for x, keep in zip(given, kept, strict=True)
    ]


ScaledDotProductAttention.aten = {"_scaled_dot_product_flash_attention_for_cpu": _aten_flash_attention}
