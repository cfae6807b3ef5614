"""Import of LinearAttention, ONNX's and ONNX Runtime's, as a Loop over the tokens.

Each head has a state, a matrix from keys to values, which tokens update and queries read (Katharopoulos et
al. 2020; the delta rule: Yang et al. 2024). It is computed in f32.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Value
from graphwright.ir.op import OnnxImporter
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32, TensorType
from graphwright.ops.contrib.attention import wide
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.control.loop import Loop
from graphwright.ops.control.scan import Scanned, emit_scan, length_of, slice_type
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.records import dataclass


@dataclass(frozen=True)
class Rule:
    """How a token updates the state."""

    decays: bool
    """Whether the state decays first."""
    is_delta: bool
    """Whether the token adds only the difference between its value and the value that the state has for its
    key.
    """


_RULES = {
    "linear": Rule(decays=False, is_delta=False),
    "gated": Rule(decays=True, is_delta=False),
    "delta": Rule(decays=False, is_delta=True),
    "gated_delta": Rule(decays=True, is_delta=True),
}


@dataclass(frozen=True)
class Sizes:
    """Each of ``heads`` has a state, which ``group`` queries read."""

    batch: Dim
    tokens: Dim
    heads: int
    group: int
    key: int
    value: int


def _import(i: OnnxImporter) -> Any:
    """Inputs: query[B, T, H_q * K], key[B, T, H_k * K], value[B, T, H * V], and optionally the state
    [B, H, K, V], the logarithm of its decay [B, T, H * K] or [B, T, H], and the rate [B, T, H] or [B, T, 1].

    H_q is a multiple of H. In ONNX Runtime's op, H_q may also be a divisor of H, and so may H_k.
    """
    if i.attr("state_window", 0):
        raise i.fail("state_window is not supported", hint="export the model with state_window=0")
    rule = rule_of(i)
    y, state = attend(i, _sizes(i), rule, float(i.attr("scale", 0.0)))
    past = i.optional(3)
    kept = as_dtype(i.builder, state, (past or i.input(0)).type.dtype)
    return as_dtype(i.builder, y, i.input(0).type.dtype), kept


def rule_of(i: OnnxImporter) -> Rule:
    """The update rule of a node, which may need the decay, input 4, and the rate, input 5."""
    name = str(i.attr("update_rule", "gated_delta"))
    if name not in _RULES:
        raise i.fail(f"update_rule {name!r} is not one of {', '.join(_RULES)}")
    rule = _RULES[name]
    for index, operand in ((4, "decay"),) * rule.decays + ((5, "beta"),) * rule.is_delta:
        if i.optional(index) is None:
            raise i.fail(f"update_rule {name!r} needs input {index}, {operand!r}")
    return rule


def attend(i: OnnxImporter, sizes: Sizes, rule: Rule, scale: float) -> tuple[Value, Value]:
    """The outputs f32[B, T, heads * V] and the last state f32[B, H, K, V] of a node with the inputs of
    LinearAttention; a ``scale`` of 0 is ``1 / sqrt(K)``.
    """
    start, scanned = _start(i, sizes), _scanned(i, sizes, rule, scale or 1 / sqrt(sizes.key))
    graph = _step(i, start.type, scanned, sizes.group)
    scan = Scanned(graph, [], [start], list(scanned.values()), [0] * len(scanned), [False] * len(scanned))
    state, rows = emit_scan(scan, i.builder, length_of(i.builder, [scanned["reads"]], [0]))
    y = i.emit(Transpose((1, 0, 2, 3, 4)), rows)
    features = sizes.heads * sizes.group * sizes.value
    return reshaped(i.builder, y, (sizes.batch, sizes.tokens, features)), state


def _sizes(i: OnnxImporter) -> Sizes:
    """Raises a diagnostic for ranks and sizes that do not match, and for dynamic numbers of features."""
    queries, heads = int(i.required_attr("q_num_heads")), int(i.required_attr("kv_num_heads"))
    features = []
    for index in range(3):
        dims = i.input(index).type.dims
        if len(dims) != 3 or not isinstance(dims[2], int):
            raise i.fail(
                f"input {index} is {i.input(index).type}", "it must have 3 axes, the last one static"
            )
        features.append(dims[2])
    if queries < 1 or heads < 1 or max(queries, heads) % min(queries, heads):
        raise i.fail(f"q_num_heads {queries} and kv_num_heads {heads} are not multiples of each other")
    if features[0] % queries or features[2] % heads:
        raise i.fail(
            f"{features[0]} and {features[2]} features are not a multiple of {queries}, {heads} heads"
        )
    key = features[0] // queries
    if key == 0 or features[1] % key or heads % max(1, features[1] // key):
        raise i.fail(f"{features[1]} features of keys are not {heads} heads of {key}, or a divisor of them")
    batch, tokens, _ = i.input(0).type.dims
    return Sizes(batch, tokens, heads, max(1, queries // heads), key, features[2] // heads)


def _rows(i: OnnxImporter, index: int, sizes: Sizes, width: int | None, axis: int = 0) -> Value:
    """Input ``index`` as f32[T, B, heads, width]; if it has fewer heads than there are states, heads are
    repeated. ``width`` None: that of a key, or 1 if the input has one number for each head.

    ``axis`` 1 makes them rows [1, width] of matrices.
    """
    x = wide(i, i.input(index))
    features = x.type.dims[2]
    if not isinstance(features, int):
        raise i.fail(f"input {index} is {x.type}", "its last axis must be static")
    if width is None:
        width = 1 if features == sizes.heads else sizes.key
    heads = features // width
    if heads * width != features:
        raise i.fail(f"the {features} features of input {index} are not heads of {width}")
    lead = (sizes.tokens, sizes.batch)
    x = reshaped(i.builder, x, (sizes.batch, sizes.tokens, heads, width))
    x = i.emit(Transpose((1, 0, 2, 3)), x)
    repeats = sizes.heads // heads if index < 2 and heads < sizes.heads else 1
    if repeats > 1:
        x = reshaped(i.builder, x, (*lead, heads, 1, width))
        x = i.emit(Expand((*lead, heads, repeats, width)), x)
    matrix = (1, width) if axis else (width,)
    return reshaped(i.builder, x, (*lead, heads * repeats, *matrix))


def _start(i: OnnxImporter, sizes: Sizes) -> Value:
    """The state before the first token; zeros if none is given."""
    dims, past = (sizes.batch, sizes.heads, sizes.key, sizes.value), i.optional(3)
    if past is None:
        zeros: Value = i.emit(Expand(dims), i.const(np.zeros((1, 1, 1, 1), np.float32)))
        return zeros
    if past.type.rank != len(dims):
        raise i.fail(f"the state is {past.type}", "it must be [batch, heads, keys, values]")
    return reshaped(i.builder, wide(i, past), dims)


def _scanned(i: OnnxImporter, sizes: Sizes, rule: Rule, scale: float) -> dict[str, Value]:
    """What each token gives the loop. The state is multiplied by ``reads``: the rows of the queries, and of
    the key if the rule needs its old value.
    """
    query = i.emit(Mul(), _rows(i, 0, sizes, sizes.key), i.const(np.asarray(scale, np.float32)))
    grouped = (sizes.tokens, sizes.batch, sizes.heads, sizes.group, sizes.key)
    query, key = reshaped(i.builder, query, grouped), _rows(i, 1, sizes, sizes.key, 1)
    column = i.emit(Transpose((0, 1, 2, 4, 3)), key)
    scanned = {"key": column, "value": _rows(i, 2, sizes, sizes.value, 1)}
    scanned["weight"] = i.emit(MatMul(), query, column)
    reads = i.emit(Concat(3), query, key) if rule.is_delta else query
    if rule.decays:
        decay = i.emit(Exp(), _rows(i, 4, sizes, None, 1))
        reads = i.emit(Mul(), reads, decay)
        scanned["decay"] = i.emit(Transpose((0, 1, 2, 4, 3)), decay)
    if rule.is_delta:
        scanned["rate"] = _rows(i, 5, sizes, 1, 1)
    return {**scanned, "reads": reads}


def _step(i: OnnxImporter, state_type: TensorType, scanned: dict[str, Value], group: int) -> Graph:
    """The body: from the state and the rows of a token to the next state and the outputs of its queries.

    One product reads the old state for the queries and the key. What the token adds for a query is its
    product with the key, the ``weight``, times the row that it adds.
    """
    graph = Graph("token")
    state = graph.add_input(TensorType(F32, state_type.dims), "state")
    rows = {name: graph.add_input(slice_type(value, 0), name) for name, value in scanned.items()}
    build = Builder(i.builder.module, graph, sources=i.builder.sources)
    found, added = build(MatMul(), rows["reads"], state), rows["value"]
    if "rate" in rows:
        known = build(Slice((group,), (group + 1,), (2,), (1,)), found)
        found = build(Slice((0,), (group,), (2,), (1,)), found)
        added = build(Mul(), build(Sub(), added, known), rows["rate"])
    kept = build(Mul(), state, rows["decay"]) if "decay" in rows else state
    state = build(Add(), kept, build(Mul(), rows["key"], added))
    graph.set_outputs([state, build(Add(), found, build(Mul(), rows["weight"], added))])
    return graph


register_contrib(Loop, LinearAttention=ranked(_import))
Loop.onnx = {**Loop.onnx, ("LinearAttention", 27): ranked(_import)}
