"""Import of Scaler, which subtracts an offset from each feature and multiplies the difference by a scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Importer
from graphwright.ir.types import F32, F64
from graphwright.ops.core.binary import Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.ml.post_transforms import DOMAIN


def _import(i: Importer) -> Any:
    """``(x - offset) * scale`` as f32. An f64 input is computed in f64 and rounded at the end, because the
    offset may be close to ``x``.
    """
    x = i.input(0)
    x = as_dtype(i.builder, x, F64 if x.type.dtype == F64 else F32)
    offset, scale = (np.array(i.attr(name, ()), x.type.dtype.numpy) for name in ("offset", "scale"))
    if not offset.size or not scale.size or {1, offset.size, scale.size} - {1, max(offset.size, scale.size)}:
        raise i.fail(
            f"offset has {offset.size} numbers and scale has {scale.size}",
            "give one number per feature, or a single number for all features",
        )
    return as_dtype(i.builder, i.emit(Mul(), i.emit(Sub(), x, i.const(offset)), i.const(scale)), F32)


Mul.onnx = {**Mul.onnx, ("Scaler", 1, DOMAIN): _import}
