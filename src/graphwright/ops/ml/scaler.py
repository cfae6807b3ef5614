"""Scaler: features moved and scaled, each by its own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Importer
from graphwright.ir.types import F32, F64
from graphwright.ops.core.binary import Mul, Sub
from graphwright.ops.ml.post_transforms import DOMAIN, as_type


def _import(i: Importer) -> Any:
    """``(x - offset) * scale`` as f32; f64 is rounded last, as the offset may be close to x."""
    x = i.input(0)
    x = as_type(i, x, F64 if x.type.dtype == F64 else F32)
    offset, scale = (np.array(i.attr(name, ()), x.type.dtype.numpy) for name in ("offset", "scale"))
    if not offset.size or not scale.size or {1, offset.size, scale.size} - {1, max(offset.size, scale.size)}:
        raise i.fail(
            f"{offset.size} offsets and {scale.size} scales", "give one of each feature, or one for all"
        )
    return as_type(i, i.emit(Mul(), i.emit(Sub(), x, i.const(offset)), i.const(scale)), F32)


Mul.onnx = {**Mul.onnx, ("Scaler", 1, DOMAIN): _import}
