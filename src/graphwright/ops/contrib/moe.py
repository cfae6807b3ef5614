"""Import of ONNX Runtime's MoE: a mixture of experts."""

from __future__ import annotations

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ops.contrib.attention import wide
from graphwright.ops.contrib.mixture import Experts, Routes, features_of, mixture, with_bias
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.grouped_matmul import GroupedMatMul
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.transpose import Transpose


def _import(i: Importer) -> Value:
    """Inputs: x, the router's logits [tokens, experts], and weights and bias of each of three layers."""
    return mixture(i, [_layer(i, index) for index in (2, 4, 6)], None)


def _layer(i: Importer, index: int) -> Experts | None:
    """The layer of the weights [experts, N, K] and the bias [experts, N], inputs ``index`` and the next one;
    None if it is absent.
    """
    if i.optional(index) is None:
        return None

    def layer(routes: Routes, features: slice, x: Value) -> Value:
        w = i.emit(Transpose((0, 2, 1)), wide(i, features_of(i, index, features)))
        return with_bias(i, i.emit(GroupedMatMul(), x, w, routes.ends), index + 1, features, routes)

    return layer


register_contrib(GroupedMatMul, MoE=ranked(_import))
