"""A helper of the imports of PyTorch's branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.symbols import Expr
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.range import scalar_of


def tensors_of(b: Builder, given: Sequence[Any]) -> list[Value]:
    """Operands or results as distinct tensors: numbers and sizes become scalars, and a repeated value is
    copied.
    """
    tensors: list[Value] = []
    for item in given:
        value = _tensor(b, item)
        tensors.append(b(Identity(), value) if value in tensors else value)
    return tensors


def _tensor(b: Builder, given: Any) -> Value:
    if isinstance(given, Value):
        return given
    if isinstance(given, Expr):
        return scalar_of(b, given)
    return b.const(np.asarray(given, np.float32 if isinstance(given, float) else None))
