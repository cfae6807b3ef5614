"""What the mappings of ONNX Runtime's own ops share: its tools put them into models that they optimise."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Import, Importer, Op
from graphwright.ops.core.binary import Add

DOMAIN = "com.microsoft"


def contribute(cls: type[Op], **imports: Import) -> None:
    """Add ops of the domain, by name, to what imports as ``cls``, alone or among others."""
    cls.onnx = {**cls.onnx, **{(name, 1, DOMAIN): convert for name, convert in imports.items()}}


def scalar(i: Importer, value: float, like: Value) -> Value:
    """A constant of the dtype of ``like``."""
    return i.const(np.asarray(value, like.type.dtype.numpy))


def added(i: Importer, x: Value, *terms: Value | None) -> Value:
    """``x`` plus each of ``terms`` that there is."""
    for term in terms:
        if term is not None:
            x = i.emit(Add(), x, term)
    return x
