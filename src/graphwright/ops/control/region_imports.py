"""Shared by the imports of branches and loops: distinct operands, and types that all iterations can have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Value
from graphwright.ir.inference.loop_types import DtypesDiffer, widened
from graphwright.ir.op import Importer
from graphwright.ir.symbols import Expr
from graphwright.ir.types import TensorType
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


def widened_types(
    i: Importer, starts: Sequence[TensorType], received: Sequence[TensorType], given: Sequence[TensorType]
) -> list[TensorType]:
    """The types of loop-carried values that are valid in every iteration. ``starts`` are their initial types,
    ``received`` those of the inputs of the body, and ``given`` those that the body returns.
    """
    wider: list[TensorType] = []
    for index, types in enumerate(zip(starts, received, given, strict=True)):
        try:
            wider.append(widened(i.builder.module.symbols, *types))
        except DtypesDiffer as error:
            raise i.fail(f"loop-carried value {index} {error}") from None
    return wider


def set_inputs(graph: Graph, inputs: Sequence[Value]) -> None:
    """Changes the inputs of ``graph`` to ``inputs``, a selection of them in another order."""
    graph.inputs[:] = inputs
    for index, value in enumerate(inputs):
        value.index = index
