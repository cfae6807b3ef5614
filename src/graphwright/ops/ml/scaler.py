"""Scaler: features moved and scaled, each by its own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Importer
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Mul, Sub
from graphwright.ops.ml.post_transforms import DOMAIN, as_type


def _import(i: Importer) -> Any:
    """``(x - offset) * scale`` in f32."""
    x = as_type(i, i.input(0), F32)
    offset, scale = (np.array(i.attr(name, ()), np.float32) for name in ("offset", "scale"))
    if not offset.size or not scale.size or {1, offset.size, scale.size} - {1, max(offset.size, scale.size)}:
        raise i.fail(
            f"{offset.size} offsets and {scale.size} scales", "give one of each feature, or one for all"
        )
    return i.emit(Mul(), i.emit(Sub(), x, i.const(offset)), i.const(scale))


Mul.onnx = {**Mul.onnx, ("Scaler", 1, DOMAIN): _import}
