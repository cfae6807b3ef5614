"""ScaledDotProductAttention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.arithmetic import Arithmetic
from graphwright.ir.op import (
    Array,
    Fact,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    arg,
    op,
)
from graphwright.ir.symbols import Dim, evaluate, symbol
from graphwright.ir.types import BF16, F32, F64, DType, TensorType
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.range import Range
from graphwright.ops.core.references import quiet
from graphwright.ops.core.rounded_operands import rounded, verify_precision
from graphwright.ops.core.unary import Sqrt

Axes = tuple[int, ...]
CANONICAL: Axes = (0, 1, 2, 3)
HEADS_INSIDE: Axes = (0, 2, 1, 3)
"""The axes of a value [batch, row, head, feature]; this permutation is its own inverse."""
GUARDS = ("none", "nan", "empty")


@op("ScaledDotProductAttention")
class ScaledDotProductAttention(Arithmetic, Op):
    """``softmax(scale * q @ k^T + mask) @ v`` in f32 (Vaswani et al. 2017).

    The shapes are q [B, H, S, D], k [B, G, T, D], v [B, G, T, E] and the result [B, H, S, E]. H is a multiple
    of G (grouped-query attention, Ainslie et al. 2023): query head h reads head ``h // (H // G)`` of k and v.
    The optional mask is broadcast to [B, H, S, T].

    - ``q_axes`` are the axes of operand q that are B, H, S and D; ``k_axes`` and ``v_axes`` those of k and v.
      Axis i of the result is number ``y_axes[i]`` of (B, H, S, E).
    - With ``softcap``, scores become ``softcap * tanh(score / softcap)`` before the mask is added.
    - With ``causal``, query i attends only to keys up to ``i + offset``.
    - ``guard`` says which probabilities are replaced by 0: ``nan`` those that are NaN, ``empty`` those of
      rows whose scores are all -inf.
    - With ``fill``, the mask is not added: it replaces the scores wherever it is not 0.
    - With ``precision`` bf16, the operands of both matrix multiplications are rounded to bf16, and k and v
      may be bf16.
    """

    scale: float = 1.0
    softcap: float = 0.0
    causal: bool = False
    offset: Dim = 0
    guard: str = "none"
    q_axes: Axes = CANONICAL
    k_axes: Axes = CANONICAL
    v_axes: Axes = CANONICAL
    y_axes: Axes = CANONICAL
    fill: bool = False
    precision: DType | None = None
    optional_inputs = frozenset({3})

    def verify(self) -> None:
        verify_precision(self.precision)
        if self.guard not in GUARDS:
            raise InferError(f"guard {self.guard!r} is not one of {', '.join(GUARDS)}")
        for axes in (self.q_axes, self.k_axes, self.v_axes, self.y_axes):
            if sorted(axes) != [0, 1, 2, 3]:
                raise InferError(f"{list(axes)} is not a permutation of four axes")

    def infer(self, at: Inference, q: Fact, k: Fact, v: Fact, mask: Fact | None = None) -> TensorType:
        wide = {F32}
        halves = wide if self.precision is None else {F32, self.precision}
        for fact, what, allowed in (
            (q, "the query", wide), (mask, "the mask", wide),
            (k, "the key", halves), (v, "the value", halves),
        ):  # fmt: skip
            if fact is not None:
                need_dtype(at, fact, allowed, what)
            if fact is not None and (fact.rank > 4 or (fact.rank < 4 and fact is not mask)):
                raise at.fail(f"{what} has {fact.rank} axes; it must have 4")
        batch, heads, queries, depth = (q.shape[a] for a in self.q_axes)
        key_batch, groups, keys, key_depth = (k.shape[a] for a in self.k_axes)
        value_batch, value_groups, value_keys, width = (v.shape[a] for a in self.v_axes)
        batch = at.equal(at.equal(batch, key_batch, "the batch"), value_batch, "the batch of the values")
        at.equal(depth, key_depth, "features of queries and keys")
        at.equal(groups, value_groups, "heads of keys and values")
        keys = at.equal(keys, value_keys, "keys and values")
        if not isinstance(heads, int) or not isinstance(groups, int):
            at.likely_equal(heads, groups, "heads")
        elif heads % max(groups, 1) or not groups:
            raise at.fail(f"{heads} query heads are not a multiple of {groups} key heads")
        if mask is not None:
            scores = (batch, heads, queries, keys)
            for axis, (dim, wanted) in enumerate(zip(mask.shape[::-1], scores[::-1], strict=False)):
                at.require_broadcast(dim, wanted, f"axis {-1 - axis} of the mask")
        sizes = (batch, heads, queries, width)
        return TensorType(F32, tuple(sizes[a] for a in self.y_axes))

    def operations(self, node: Node) -> Dim:
        """The operations of both matrix multiplications. Causal attention is counted in full, though it needs
        half.
        """
        q, k, v = (node.operand(position).type.dims for position in range(3))
        batch, heads, queries, depth = (q[axis] for axis in self.q_axes)
        return 2 * batch * heads * queries * k[self.k_axes[2]] * (depth + v[self.v_axes[3]])

    @quiet
    def reference(self, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        operand_axes = (self.q_axes, self.k_axes, self.v_axes)
        q, k, v = (np.transpose(x, axes) for x, axes in zip((q, k, v), operand_axes, strict=True))
        group = q.shape[1] // k.shape[1]
        k, v = (np.repeat(x, group, axis=1) for x in (k, v))
        if self.precision is not None:
            q, k, v = self._rounded(q * q.dtype.type(self.scale)), self._rounded(k), self._rounded(v)
        scores = np.matmul(q, np.swapaxes(k, 2, 3))
        if self.precision is None:
            scores = scores * q.dtype.type(self.scale)
        if self.softcap:
            cap = q.dtype.type(self.softcap)
            scores = cap * np.tanh(scores / cap)
        if mask is not None:
            scores = np.where(mask == 0, scores, mask) if self.fill else scores + mask
        if self.causal:
            rows, columns = np.ogrid[: scores.shape[2], : scores.shape[3]]
            scores = np.where(columns <= rows + evaluate(self.offset, {}), scores, q.dtype.type(-np.inf))
        maximum = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        powers = np.exp(scores - maximum)
        probabilities = self._rounded(powers) / np.sum(powers, axis=-1, keepdims=True)
        replaced = {"none": False, "nan": np.isnan(probabilities), "empty": maximum == -np.inf}[self.guard]
        result = np.matmul(np.where(replaced, q.dtype.type(0), probabilities), v)
        return np.ascontiguousarray(np.transpose(result, self.y_axes))

    def _rounded(self, factor: Array) -> Array:
        return factor if self.precision is None else rounded(factor, self.precision)


def scaled(i: Importer, q: Any, features: Dim) -> tuple[Any, float]:
    """The query and the attribute ``scale`` that divide the scores by the square root of ``features``. If
    ``features`` is symbolic, the query is divided, and ``scale`` is 1.
    """
    if isinstance(features, int):
        return q, max(features, 1) ** -0.5
    root = i.emit(Sqrt(), i.emit(Cast(q.type.dtype), i.emit(Range((features, features + 1, 1)))))
    return i.emit(Div(), q, root), 1.0


def precision_of(dtype: DType) -> DType | None:
    """The precision of the matrix multiplications for operands of ``dtype``."""
    return BF16 if dtype == BF16 else None


def _sample(given: ScaledDotProductAttention, *shapes: Sequence[Dim], error: str = "") -> Sample:
    return Sample(given, tuple(arg(F32, *shape) for shape in shapes), error)


_B, _S, _T = symbol("B"), symbol("S"), symbol("T")
_SELF = ((2, 3, 5, 4),) * 3
ScaledDotProductAttention.samples = (
    _sample(ScaledDotProductAttention(0.5), *_SELF),
    _sample(ScaledDotProductAttention(0.5), *_SELF, (2, 1, 1, 5)),
    _sample(ScaledDotProductAttention(0.5, precision=BF16), *_SELF, (5, 5)),
    Sample(
        ScaledDotProductAttention(0.5, precision=BF16),
        (arg(F32, 1, 4, 3, 6), arg(BF16, 1, 2, 5, 6), arg(BF16, 1, 2, 5, 7)),
    ),
    _sample(ScaledDotProductAttention(0.5), *_SELF, (5, 5)),
    _sample(ScaledDotProductAttention(softcap=2.0, causal=True), *_SELF),
    _sample(ScaledDotProductAttention(causal=True, offset=2), (1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)),
    _sample(
        ScaledDotProductAttention(0.5, q_axes=(0, 2, 1, 3), k_axes=(0, 2, 3, 1), y_axes=(0, 2, 1, 3)),
        (1, 7, 2, 4), (1, 4, 2, 6), (1, 2, 6, 3),
    ),
    _sample(ScaledDotProductAttention(0.3), (_B, 2, _S, 4), (_B, 2, _T, 4), (_B, 2, _T, 4), (_B, 1, 1, _T)),
    _sample(ScaledDotProductAttention(), (1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 5)),
    _sample(ScaledDotProductAttention(), (1, 2, 0, 4), (1, 2, 3, 4), (1, 2, 3, 5)),
    _sample(ScaledDotProductAttention(0.5, fill=True), *_SELF, (2, 1, 5, 5)),
    Sample(
        ScaledDotProductAttention(fill=True),
        (
            *(arg(F32, 1, 1, 2, 3, values=(1, 2, 3, np.inf, np.nan, -np.inf)) for _ in range(2)),
            arg(F32, 1, 1, 2, 3),
            arg(F32, 2, 2, values=(0, -1e9, -np.inf, 7)),
        ),
    ),
    Sample(
        ScaledDotProductAttention(guard="nan"),
        (*(arg(F32, 1, 1, 2, 3) for _ in range(3)), arg(F32, 2, 2, values=(-np.inf, -np.inf, 0, -np.inf))),
    ),
    Sample(
        ScaledDotProductAttention(guard="empty"),
        (*(arg(F32, 1, 1, 2, 3) for _ in range(3)), arg(F32, 2, 2, values=(-np.inf, -np.inf, 0, -np.inf))),
    ),
    _sample(ScaledDotProductAttention(guard="all"), *_SELF, error="guard 'all' is not one of"),
    _sample(ScaledDotProductAttention(q_axes=(0, 1, 1, 2)), *_SELF, error="not a permutation of four axes"),
    _sample(ScaledDotProductAttention(), (3, 5, 4), (3, 5, 4), (3, 5, 4), error="the query has 3 axes"),
    _sample(ScaledDotProductAttention(), (1, 3, 5, 4), *((1, 2, 5, 4),) * 2, error="not a multiple"),
    _sample(ScaledDotProductAttention(), (1, 2, 5, 4), *((1, 2, 5, 3),) * 2, error="features of queries"),
    _sample(ScaledDotProductAttention(), (1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 5, 4), error="keys and values"),
    _sample(ScaledDotProductAttention(), *_SELF, (4, 5), error="axis -2 of the mask: 4 and 5 differ"),
    Sample(ScaledDotProductAttention(), tuple(arg(F64, 1, 1, 2, 3) for _ in range(3)), "the query is f64"),
    _sample(ScaledDotProductAttention(), (1, 4, 0, 4), (1, 2, 3, 4), (1, 2, 3, 5)),
    _sample(ScaledDotProductAttention(), (1, 4, 3, 4), (1, 2, 0, 4), (1, 2, 0, 5)),
)  # fmt: skip
