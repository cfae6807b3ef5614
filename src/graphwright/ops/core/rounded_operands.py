"""Products whose operands are rounded to few bits, and whose sums are f32: what such ops share.

Their attribute ``precision`` is None, where operands and result have one dtype, or :data:`BF16`: then each of
both factors is f32 or bf16, f32 is rounded on the way, and sums, bias and result are f32.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, InferError
from graphwright.ir.types import BF16, F32, DType
from graphwright.ops.core.common import need_dtype, same_dtype, widened

PRECISIONS = (None, BF16)


def verify_precision(precision: DType | None) -> None:
    """Raises InferError for what is no precision of a product."""
    if precision not in PRECISIONS:
        raise InferError(f"no product is computed in {precision}: the precision is bf16 or none")


def product_dtype(at: Inference, precision: DType | None, *factors: Fact) -> DType:
    """The dtype of the sums of products of ``factors``, which is checked."""
    if precision is None:
        return same_dtype(at, *factors)
    for factor in factors:
        need_dtype(at, factor, {F32, precision}, f"a factor in {precision}")
    return F32


def rounded(array: Array, precision: DType | None) -> Array:
    """A factor as it is multiplied: f32 (f64 where the model is evaluated in f64), of rounded numbers."""
    if precision is None:
        return widened(array)
    wide = array.dtype if array.dtype == np.float64 else np.float32
    return array.astype(precision.numpy).astype(wide)


def summed(array: Array, factor: Array, precision: DType | None) -> Array:
    """A result computed from ``factor`` in the dtype that it has."""
    if precision is None:
        return np.asarray(array, dtype=factor.dtype)
    return np.asarray(array)
