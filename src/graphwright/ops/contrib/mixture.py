"""What the imports of MoE and QMoE share: the routes of tokens to experts, and the network of the experts.

A mixture of experts (Shazeer et al. 2017) computes for each token only the k of E experts that its router
chooses, and sums their outputs by weight. The weights of experts without tokens are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.types import I64
from graphwright.ops.contrib.attention import wide
from graphwright.ops.core.binary import Add, Greater, LessOrEqual, Max, Min, Mul, Sub, added
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.gather_elements import GatherElements
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.scatter_elements import ScatterElements
from graphwright.ops.core.scatter_nd import ScatterND
from graphwright.ops.core.slice import TO_THE_END, Slice
from graphwright.ops.core.top_k import TopK
from graphwright.ops.core.unary import Abs, Relu
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.activations import Gelu, Swish
from graphwright.ops.nn.softmax import Softmax
from graphwright.records import dataclass

Layer: TypeAlias = Callable[[slice, Value], Value]
"""Computes ``x @ w.T + bias`` for x[routes, K], where each route has the w and the bias of its expert. The
slice selects features, which are rows of w.
"""
Network: TypeAlias = Callable[[Value], Value]
"""The outputs of experts for x[routes, K]."""


@dataclass(frozen=True)
class Routes:
    """The k routes of each token to experts, sorted by expert."""

    expert: Value
    """The expert of each route."""
    ends: Value
    """For each expert, the number of routes to it and to the experts before it."""


Experts: TypeAlias = Callable[[Routes, slice, Value], Value]
"""A layer of all experts, for given routes."""

_JITTER = 0.01
"""SparseMixer ignores experts whose logit is further than twice this fraction from the greatest one."""
_ALL = slice(None)


def mixture(i: Importer, layers: Sequence[Experts | None], weights: Value | None) -> Value:
    """The sum of the outputs of the chosen experts, multiplied by their weights, in the dtype and shape of
    input 0; input 1 are the router's logits [tokens, experts]. ``weights`` of all experts replace the softmax
    of the logits. The layers are those of :func:`_network`.

    The routes of tokens to experts are sorted by expert: each layer is one grouped product.
    """
    x, experts, k = i.input(0), i.input(1).type.dims[1], int(i.attr("k", 1))
    if not isinstance(experts, int):
        raise i.fail("the number of experts is not known", "give the sizes of the inputs with shapes=")
    tokens = wide(i, i.emit(Reshape((-1, x.type.dims[-1])), x))
    chosen, shares = (i.emit(Reshape((-1,)), each) for each in _chosen(i, k, weights))
    expert, order = i.emit(TopK(0, largest=False, k=chosen.type.dims[0]), chosen)
    rows = i.emit(Div(), order, i.const(np.array(k)))
    is_before = i.emit(LessOrEqual(), chosen, i.const(np.arange(experts)[:, None]))
    ends = i.emit(ReduceSum((1,), keepdims=False), i.emit(Cast(I64), is_before))
    network = _network(i, [layer and partial(layer, Routes(expert, ends)) for layer in layers])
    share = i.emit(Unsqueeze((1,)), i.emit(Gather(), shares, order))
    outputs = i.emit(Mul(), network(i.emit(Gather(), tokens, rows)), share)
    zeros = i.emit(Expand(tokens.type.dims), i.const(np.zeros((1, 1), np.float32)))
    y = i.emit(ScatterND("add"), zeros, i.emit(Unsqueeze((1,)), rows), outputs)
    return as_dtype(i.builder, i.emit(Reshape(x.type.dims), y), x.type.dtype)


def _chosen(i: Importer, k: int, weights: Value | None) -> tuple[Value, Value]:
    """The k experts of each token, and their weights, [tokens, k]."""
    logits = wide(i, i.input(1))
    normalize = bool(i.attr("normalize_routing_weights", 0))
    if i.attr("use_sparse_mixer", 0):
        if k != 2:
            raise i.fail(f"k is {k}, but use_sparse_mixer needs k=2", "export the model again")
        return _sparse_mixer(i, logits)
    greatest, chosen = i.emit(TopK(-1, k=k), logits)
    if weights is not None:
        shares = i.emit(GatherElements(1), wide(i, weights), chosen)
        if normalize:
            shares = i.emit(Div(), shares, i.emit(ReduceSum((1,)), shares))
    elif normalize:
        shares = i.emit(Softmax(-1), greatest)
    else:
        shares = i.emit(GatherElements(1), i.emit(Softmax(-1), logits), chosen)
    return chosen, shares


def _sparse_mixer(i: Importer, logits: Value) -> tuple[Value, Value]:
    """The two experts of each token and their weights, [tokens, 2], by SparseMixer (Liu et al. 2023). The
    weight of an expert is its share of the softmax among the remaining experts with almost its logit.
    """
    lowest, size = scalar(i, -np.inf, logits), i.emit(Abs(), logits)
    chosen, shares, remaining = [], [], logits
    for _ in range(2):
        greatest, expert = i.emit(TopK(-1, k=1), remaining)
        distance = i.emit(Div(), i.emit(Sub(), greatest, logits), i.emit(Max(), size, greatest))
        is_far = i.emit(Greater(), distance, scalar(i, 2 * _JITTER, logits))
        gates = i.emit(Softmax(-1), i.emit(Where(), is_far, lowest, remaining))
        chosen.append(expert)
        shares.append(i.emit(GatherElements(1), gates, expert))
        mark = i.emit(Expand(expert.type.dims), i.emit(Reshape((1, 1)), lowest))
        remaining = i.emit(ScatterElements(1), remaining, expert, mark)
    return i.emit(Concat(1), *chosen), i.emit(Concat(1), *shares)


def _network(i: Importer, layers: list[Layer | None]) -> Network:
    """Layer 1, the activation, and layer 2. If there is a layer 3, its result is multiplied by that of the
    activation, before layer 2.

    Layer 3 may be part of layer 1: every second feature (``swiglu_fusion`` 1), or the second half (2).
    """
    kind, fusion = str(i.attr("activation_type", "relu")), int(i.attr("swiglu_fusion", 0))
    first, last, linear = layers
    gate_features = linear_features = _ALL
    if kind in ("swiglu", "geglu") and linear is None:
        size = i.input(2).type.dims[1]
        if fusion not in (1, 2) or not isinstance(size, int):
            raise i.fail(
                f"activation {kind} needs layer 3, or swiglu_fusion 1 or 2", "export the model again"
            )
        linear, half = first, size // 2
        gate_features = slice(0, None, 2) if fusion == 1 else slice(0, half)
        linear_features = slice(1, None, 2) if fusion == 1 else slice(half, None)
    if first is None or last is None:
        raise i.fail("the weights of layers 1 and 2 are required", "export the model again")
    activate = _activation(i, kind)

    def output(x: Value) -> Value:
        hidden = activate(first(gate_features, x))
        if linear is not None:
            factor = linear(linear_features, x)
            hidden = i.emit(Mul(), hidden, _linear(i, factor) if kind == "swiglu" else factor)
        return last(_ALL, hidden)

    return output


def _activation(i: Importer, kind: str) -> Callable[[Value], Value]:
    if kind == "swiglu":
        return lambda gate: _gated(i, gate)
    ops = {
        "relu": Relu(), "gelu": Gelu("tanh"), "geglu": Gelu("tanh"), "silu": Swish(), "identity": Identity(),
    }  # fmt: skip
    if kind == "relu2":
        return lambda x: i.emit(Mul(), *(2 * [i.emit(Relu(), x)]))
    if kind not in ops:
        raise i.fail(f"activation {kind!r} is not one of {', '.join((*ops, 'relu2', 'swiglu'))}")
    return lambda x: i.emit(ops[kind], x)


def _gated(i: Importer, gate: Value) -> Any:
    """The gate of SwiGLU (Shazeer 2020): ``g * sigmoid(alpha * g)``, limited from above before or after."""
    swish, limit = Swish(float(i.attr("activation_alpha", 1.0))), i.attr("swiglu_limit")
    if limit is None:
        return i.emit(swish, gate)
    bound = scalar(i, float(limit), gate)
    if i.attr("swiglu_limit_after_activation", 0):
        return i.emit(Min(), i.emit(swish, gate), bound)
    return i.emit(swish, i.emit(Min(), gate, bound))


def _linear(i: Importer, x: Value) -> Value:
    """The linear operand of SwiGLU: x within the limit, plus beta."""
    beta, limit = float(i.attr("activation_beta", 0.0)), i.attr("swiglu_limit")
    if limit is not None and np.isfinite(limit):
        x = i.emit(Clip(-float(limit), float(limit)), x)
    return x if beta == 0 else i.emit(Add(), x, scalar(i, beta, x))


def with_bias(i: Importer, y: Value, index: int, features: slice, routes: Routes) -> Value:
    """``y`` plus the bias of the expert of each route, if input ``index`` is present, [experts, N]."""
    if i.optional(index) is None:
        return y
    return added(i, y, i.emit(Gather(), wide(i, features_of(i, index, features)), routes.expert))


def features_of(i: Importer, index: int, features: slice) -> Value:
    """The ``features`` of all experts from input ``index``, [experts, N, ...]."""
    known = i.constant(index)
    if known is not None:
        return i.const(np.ascontiguousarray(known[:, features]))
    if features == _ALL:
        return i.input(index)
    start, stop, step = (features.start or 0,), (features.stop or TO_THE_END,), (features.step or 1,)
    rows: Value = i.emit(Slice(start, stop, (1,), step), i.input(index))
    return rows
