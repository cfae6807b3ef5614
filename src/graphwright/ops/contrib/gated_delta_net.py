"""Import of ONNX Runtime's GatedDeltaNet, a linear attention (Yang et al. 2025). Its tokens are packed, its
state is [values, keys], and it computes its gates itself.
"""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.symbols import Dim, floordiv, product
from graphwright.ir.types import BOOL
from graphwright.ops.contrib.attention import wide
from graphwright.ops.contrib.linear_attention import Sizes, attend, rule_of
from graphwright.ops.contrib.node_with_inputs import NodeWithInputs
from graphwright.ops.contrib.packed_tokens import sequences
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.control.loop import Loop
from graphwright.ops.core.binary import Add, Less, Min, Mul
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.sampling import size_value
from graphwright.ops.core.split import Split
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Sigmoid, Softplus, Sqrt
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.records import dataclass

GATES = ("none", "softplus", "qwen", "sigmoid", "kda")
_LOWER_BOUND = -5.0
_EPSILON = 1e-12
"""Added to the squared length of the vectors that ``qk_l2_norm`` normalizes."""


@dataclass(frozen=True)
class _Packing:
    """How tokens form sequences. Ragged ones are padded: token t of sequence b is row ``rows[b, t]`` if
    ``is_token[b, t]``, and packed token n is row ``places[n]`` of all padded ones.
    """

    batch: Dim
    tokens: Dim
    rows: Value | None = None
    is_token: Value | None = None
    places: Value | None = None


def _import(i: OnnxImporter) -> Any:
    """Inputs: query and key [N, H_q, K], value [N, H, V], or one tensor with the features of all three; the
    bounds of the sequences among the N tokens; decay, rate, the state f32[B, H, V, K], and what the gates
    need. N may be two axes [B, T].
    """
    if i.attr("state_update_capacity", 0):
        raise i.fail(
            "state_update_capacity is not supported", hint="export the model with state_update_capacity=0"
        )
    rule, (query, key, value), past = rule_of(i), _parts(i), i.optional(6)
    lead, packing = rank_of(query) - 2, _packing(i, query, past)
    sizes = _sizes(i, query, value, packing)
    if i.attr("qk_l2_norm", 0):
        query, key = _unit(i, query), _unit(i, key)
    rows: list[Value | None] = [_rows(i, x, packing, lead) for x in (query, key, value)]
    state = None if past is None else i.emit(Transpose((0, 1, 3, 2)), wide(i, past))
    decay = _rows(i, _decay(i, lead), packing, lead) if rule.decays else None
    rate = _rows(i, _rate(i), packing, lead) if rule.is_delta else None
    if packing.is_token is not None:  # padding adds nothing to the state, which does not decay there
        rows[1] = _masked(i, rows[1], packing.is_token)
        decay = None if decay is None else _masked(i, decay, packing.is_token)
    node: Any = NodeWithInputs(i, [*rows, state, decay, rate])
    y, last = attend(node, sizes, rule, float(i.attr("scale", 0.0)))
    if packing.places is not None:
        flat = reshaped(i.builder, y, (packing.batch * packing.tokens, sizes.heads * sizes.value))
        y = i.emit(Gather(0), flat, packing.places)
    y = reshaped(i.builder, y, (*query.type.dims[:-2], sizes.heads, sizes.value))
    return as_dtype(i.builder, y, i.input(0).type.dtype), i.emit(Transpose((0, 1, 3, 2)), last)


def _sizes(i: Importer, query: Value, value: Value, packing: _Packing) -> Sizes:
    dims = [n for n in (*query.type.dims[-2:], *value.type.dims[-2:]) if isinstance(n, int) and n > 0]
    if len(dims) < 4 or dims[2] % dims[0]:
        raise i.fail(
            f"the operands are {query.type} and {value.type}",
            hint="sizes of heads must be static, and there must be as many value heads as query heads, or a "
            "multiple of them",
        )
    return Sizes(packing.batch, packing.tokens, dims[2], 1, dims[1], dims[3])


def _parts(i: Importer) -> tuple[Value, Value, Value]:
    """Query, key and value in f32, each [tokens, heads, features] or [batch, tokens, heads, features]."""
    query, past = wide(i, i.input(0)), i.optional(6)
    if i.optional(1) is not None:
        return query, wide(i, i.input(1)), wide(i, i.input(2))
    if past is None or rank_of(past) != 4:
        raise i.fail(
            "queries, keys and values are one input, but the state is missing or does not have 4 axes",
            hint="give the state [B, heads, values, keys], from which their sizes follow",
        )
    _, heads, values, keys = past.type.dims
    *lead, features = query.type.dims
    queries = floordiv(features - heads * values, 2)
    sections = ((queries, keys), (queries, keys), (heads * values, values))
    split = i.emit(Split(3, -1, tuple(total for total, _ in sections)), query)
    q, k, v = (
        reshaped(i.builder, part, (*lead, floordiv(total, width), width))
        for part, (total, width) in zip(split, sections, strict=True)
    )
    return q, k, v


def _packing(i: Importer, query: Value, past: Value | None) -> _Packing:
    bounds, dims = i.optional(3), query.type.dims
    if len(dims) == 4:
        return _Packing(dims[0], dims[1])
    if bounds is not None:
        return _ragged(i, dims[0], bounds)
    if past is None:
        raise i.fail("the number of sequences is unknown", hint="add cu_seqlens or initial_state")
    batch = past.type.dims[0]
    return _Packing(batch, floordiv(dims[0], batch))


def _ragged(i: Importer, total: Dim, bounds: Value) -> _Packing:
    """The sequences between ``bounds``, each padded to ``total`` tokens."""
    found = sequences(i, bounds, total)
    rows = i.emit(Add(), i.emit(Unsqueeze((1,)), found.starts), i.emit(Range((0, total, 1))))
    is_token = i.emit(Less(), rows, i.emit(Unsqueeze((1,)), found.ends))
    rows = i.emit(Min(), rows, size_value(i.builder, total - 1))
    places = i.emit(Add(), i.emit(Mul(), found.of, size_value(i.builder, total)), found.position)
    return _Packing(found.count, total, rows, is_token, places)


def _rows(i: Importer, x: Value, packing: _Packing, lead: int) -> Value:
    """x as [B, T, features]; its first ``lead`` axes are those of the tokens."""
    width = product(x.type.dims[lead:])
    if packing.rows is not None:
        x = i.emit(Gather(0), reshaped(i.builder, x, (packing.tokens, width)), packing.rows)
    return reshaped(i.builder, x, (packing.batch, packing.tokens, width))


def _masked(i: Importer, x: Value | None, is_token: Value) -> Value:
    assert x is not None and is_token.type.dtype == BOOL
    y: Value = i.emit(Where(), i.emit(Unsqueeze((2,)), is_token), x, scalar(i, 0.0, x))
    return y


def _unit(i: Importer, x: Value) -> Value:
    squares = i.emit(ReduceSum((-1,), keepdims=True), i.emit(Mul(), x, x))
    y: Value = i.emit(Div(), x, i.emit(Sqrt(), i.emit(Add(), squares, scalar(i, _EPSILON, x))))
    return y


def _decay(i: Importer, lead: int) -> Value:
    """The logarithm of the decay, [..., H] or [..., H, K], from its projection; tokens have ``lead`` axes."""
    kind, decay = str(i.attr("gate_activation", "none")), wide(i, i.input(4))
    if kind not in GATES:
        raise i.fail(f"gate_activation {kind!r} is not one of {', '.join(GATES)}")
    if kind == "none":
        return decay
    dims, is_scalar = decay.type.dims, rank_of(decay) == lead + 1
    speed, bias = i.emit(Exp(), wide(i, i.input(7))), wide(i, i.input(8))
    if not is_scalar:
        speed = i.emit(Unsqueeze((1,)), speed)
        width = 1 if bias.type.dims == i.input(7).type.dims else dims[-1]
        bias = reshaped(i.builder, bias, (dims[-2], width))
    shifted = i.emit(Add(), decay, bias)
    if kind in ("softplus", "qwen"):
        product = i.emit(Mul(), speed, i.emit(Softplus(), shifted))
        factor = -1.0
    else:
        product = i.emit(Sigmoid(), i.emit(Mul(), speed, shifted))
        factor = float(i.attr("gate_lower_bound", _LOWER_BOUND))
    logarithm: Value = i.emit(Mul(), product, scalar(i, factor, product))
    return logarithm


def _rate(i: Importer) -> Value:
    kind, rate = str(i.attr("beta_activation", "none")), wide(i, i.input(5))
    if kind not in ("none", "sigmoid"):
        raise i.fail(f"beta_activation {kind!r} is not one of none, sigmoid")
    return rate if kind == "none" else i.emit(Sigmoid(), rate)


register_contrib(Loop, GatedDeltaNet=ranked(_import))
