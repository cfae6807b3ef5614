"""Import of ONNX Runtime's MoE: a mixture of experts. Routes are sorted by expert, so that each layer is one
grouped matrix multiplication.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.types import I64
from graphwright.ops.contrib.attention import wide
from graphwright.ops.contrib.common import added, contribute
from graphwright.ops.contrib.mixture import Layer, Routes, features_of, network, outputs_of, routes, summed
from graphwright.ops.core.binary import LessOrEqual
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.grouped_matmul import GroupedMatMul
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.top_k import TopK
from graphwright.ops.core.transpose import Transpose
from graphwright.records import dataclass


@dataclass(frozen=True)
class _Groups:
    """Routes sorted by expert."""

    expert: Value
    """The expert of each route, in ascending order."""
    ends: Value
    """For each expert, the number of routes to it and to those before it."""


def _import(i: Importer) -> Value:
    """Inputs: x, the router's logits [tokens, experts], and weights and bias of each of three layers."""
    to = routes(i, None)
    expert, order = i.emit(TopK(0, largest=False, k=to.chosen.type.dims[0]), to.chosen)
    groups = _Groups(expert, _ends(i, to))
    layers = [_layer(i, groups, index) for index in (2, 4, 6)]
    return summed(i, to, [outputs_of(i, to, order, network(i, layers))])


def _ends(i: Importer, to: Routes) -> Value:
    each = i.const(np.arange(to.experts)[:, None])
    ends: Value = i.emit(
        ReduceSum((1,), keepdims=False), i.emit(Cast(I64), i.emit(LessOrEqual(), to.chosen, each))
    )
    return ends


def _layer(i: Importer, groups: _Groups, index: int) -> Layer | None:
    """The layer of the weights [experts, N, K] and the bias [experts, N], inputs ``index`` and the next one;
    None if it is absent.
    """
    if i.optional(index) is None:
        return None

    def layer(features: slice, x: Value) -> Value:
        w = i.emit(Transpose((0, 2, 1)), wide(i, features_of(i, index, features)))
        y: Value = i.emit(GroupedMatMul(), x, w, groups.ends)
        if i.optional(index + 1) is None:
            return y
        return added(i, y, i.emit(Gather(), wide(i, features_of(i, index + 1, features)), groups.expert))

    return layer


contribute(GroupedMatMul, MoE=ranked(_import))
