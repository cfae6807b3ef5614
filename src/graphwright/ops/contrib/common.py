"""Helpers of the imports of ONNX Runtime's own ops. Its optimizer writes such ops into models."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Import, Importer, Op
from graphwright.ops.core.binary import Add

DOMAIN = "com.microsoft"


def contribute(cls: type[Op], **imports: Import) -> None:
    """Register import functions of ops of the domain at ``cls``, the main op of their results."""
    cls.onnx = {**cls.onnx, **{(name, 1, DOMAIN): convert for name, convert in imports.items()}}


def scalar(i: Importer, value: float, like: Value) -> Value:
    """The constant ``value``, a scalar in the dtype of ``like``."""
    return i.const(np.asarray(value, like.type.dtype.numpy))


def added(i: Importer, x: Value, *terms: Value | None) -> Value:
    """``x`` plus each of ``terms`` that is not None."""
    for term in terms:
        if term is not None:
            x = i.emit(Add(), x, term)
    return x
