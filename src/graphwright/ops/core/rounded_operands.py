"""The attribute ``precision`` of matrix multiplications and convolutions that round their operands.

If it is None, operands and result have one dtype. If it is bf16, each operand is f32 or bf16, f32 operands
are rounded to bf16, and sums, bias and result are f32.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, InferError
from graphwright.ir.types import BF16, F32, DType
from graphwright.ops.core.checks import need_dtype, same_dtype
from graphwright.ops.core.references import widened

PRECISIONS = (None, BF16)


def verify_precision(precision: DType | None) -> None:
    """Raises InferError if ``precision`` is not supported."""
    if precision not in PRECISIONS:
        raise InferError(f"the precision {precision} is not supported: it must be bf16 or None")


def product_dtype(at: Inference, precision: DType | None, *factors: Fact) -> DType:
    """The dtype of the result. Raises InferError if the dtypes of ``factors`` do not match ``precision``."""
    if precision is None:
        return same_dtype(at, *factors)
    for factor in factors:
        need_dtype(at, factor, {F32, precision}, f"an operand of a product in {precision}")
    return F32


def rounded(array: Array, precision: DType | None) -> Array:
    """An operand rounded to ``precision``, as f32 (f64 if it is f64, for the evaluation of models in f64)."""
    if precision is None:
        return widened(array)
    wide = array.dtype if array.dtype == np.float64 else np.float32
    return array.astype(precision.numpy).astype(wide)


def summed(array: Array, factor: Array, precision: DType | None) -> Array:
    """A result in its dtype: that of ``factor``, or with a precision that of the sums."""
    if precision is None:
        return np.asarray(array, dtype=factor.dtype)
    return np.asarray(array)
