"""Import of Imputer, which replaces missing features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphwright.ir.op import Importer
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.unary import IsNaN
from graphwright.ops.core.where import Where
from graphwright.ops.ml.post_transforms import DOMAIN


def _import(i: Importer) -> Any:
    """Replaces elements that are equal to ``replaced_value`` (NaN equals NaN) by an imputed value: one for
    all features, or one for each.
    """
    x = i.input(0)
    kind = "floats" if x.type.dtype.is_float else "int64s"
    values = np.array(i.attr(f"imputed_value_{kind}", ()), x.type.dtype.numpy)
    if not values.size:
        raise i.fail(f"attribute imputed_value_{kind} is missing for an input of {x.type.dtype}")
    *_, width = x.type.shape or (None if x.type.rank is None else 1,)
    if values.size > 1 and isinstance(width, int) and width != values.size:
        message = f"{values.size} imputed values for {width} features: there must be one, or one per feature"
        raise i.fail(message, "export the model again")
    replaced = i.attr(f"replaced_value_{kind[:-1]}", 0)
    if isinstance(replaced, float) and math.isnan(replaced):
        missing = i.emit(IsNaN(), x)
    else:
        missing = i.emit(Equal(), x, i.const(np.asarray(replaced, x.type.dtype.numpy)))
    return i.emit(Where(), missing, i.const(values), x)


Where.onnx = {**Where.onnx, ("Imputer", 1, DOMAIN): _import}
