"""ScaledDotProductAttention, and the import of ONNX's Attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.arithmetic import Arithmetic
from graphwright.ir.exporter import Exporter, refuse_others
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    InferError,
    OnnxImporter,
    Op,
    Sample,
    arg,
    op,
)
from graphwright.ir.symbols import Dim, evaluate, floordiv, symbol
from graphwright.ir.types import BF16, BOOL, F16, F32, F64, DType, TensorType
from graphwright.ops.core.binary import Add, And, Less, LessOrEqual, Mul, Sub
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.common import dtype_attribute, need_dtype, quiet
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceMax
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.rounded_operands import rounded, verify_precision
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Sqrt, Tanh
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.softmax import Softmax

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


def _export(
    e: Exporter, op: ScaledDotProductAttention, q: Value, k: Value, v: Value, mask: Value | None = None
) -> Any:
    """Exports as MatMul, Softmax and MatMul, which every opset has."""
    refuse_others(op, set(op.attribute_defaults) - {"precision"})
    heads, groups = q.type.dims[op.q_axes[1]], k.type.dims[op.k_axes[1]]
    batch, rows, keys = q.type.dims[op.q_axes[0]], q.type.dims[op.q_axes[2]], k.type.dims[op.k_axes[2]]
    key_axes = tuple(op.k_axes[axis] for axis in (0, 1, 3, 2))
    left, right, values = (
        _transposed(e, x, axes) for x, axes in ((q, op.q_axes), (k, key_axes), (v, op.v_axes))
    )
    number = q.type.dtype.numpy.type
    left = e.emit("Mul", left, e.const(np.array(number(op.scale))))
    if heads != groups:
        shared = (batch, groups, floordiv(heads, groups), rows)
        left = e.emit("Reshape", left, e.sizes((*shared, q.type.dims[op.q_axes[3]])), allowzero=1)
        right, values = (e.emit("Unsqueeze", x, e.sizes((2,))) for x in (right, values))
    scores = e.emit("MatMul", left, right)
    if heads != groups:
        scores = e.emit("Reshape", scores, e.sizes((batch, heads, rows, keys)), allowzero=1)
    scores = _export_mask(e, op, scores, mask, rows, keys, number)
    probabilities = _export_guard(e, op, scores, e.emit("Softmax", scores, axis=-1), number)
    if heads != groups:
        probabilities = e.emit("Reshape", probabilities, e.sizes((*shared, keys)), allowzero=1)
    y = e.emit("MatMul", probabilities, values)
    if heads != groups:
        y = e.emit("Reshape", y, e.sizes((batch, heads, rows, v.type.dims[op.v_axes[3]])), allowzero=1)
    return _transposed(e, y, op.y_axes)


def _transposed(e: Exporter, x: Any, axes: Axes) -> Any:
    return x if axes == CANONICAL else e.emit("Transpose", x, perm=axes)


def _export_guard(
    e: Exporter, op: ScaledDotProductAttention, scores: Any, probabilities: Any, number: Any
) -> Any:
    """The probabilities after ``guard``."""
    if op.guard == "none":
        return probabilities
    if op.guard == "nan":
        replaced = e.emit("IsNaN", probabilities)
    else:
        maximum = e.emit("ReduceMax", scores, e.sizes((-1,)))
        replaced = e.emit("Equal", maximum, e.const(number(-np.inf)))
    return e.emit("Where", replaced, e.const(number(0)), probabilities)


def _export_mask(
    e: Exporter,
    op: ScaledDotProductAttention,
    scores: Any,
    mask: Value | None,
    rows: Dim,
    keys: Dim,
    number: Any,
) -> Any:
    """The scores after ``softcap``, the mask and ``causal``."""
    if op.softcap:
        cap = e.const(np.array(number(op.softcap)))
        scores = e.emit("Mul", e.emit("Tanh", e.emit("Div", scores, cap)), cap)
    if mask is not None and op.fill:
        scores = e.emit("Where", e.emit("Equal", mask, e.const(number(0))), scores, mask)
    elif mask is not None:
        scores = e.emit("Add", scores, mask)
    if not op.causal:
        return scores
    one = e.size(1)
    row = e.emit("Range", e.size(op.offset), e.size(rows + op.offset), one)
    column = e.emit("Range", e.size(0), e.size(keys), one)
    visible = e.emit("LessOrEqual", column, e.emit("Unsqueeze", row, e.sizes((1,))))
    return e.emit("Where", visible, scores, e.const(number(-np.inf)))


ScaledDotProductAttention.to_onnx = _export


def scaled(i: Importer, q: Any, features: Dim) -> tuple[Any, float]:
    """The query and the attribute ``scale`` of ``1 / sqrt(features)``. If ``features`` is symbolic, the query
    is divided by the root, and ``scale`` is 1.
    """
    if isinstance(features, int):
        return q, max(features, 1) ** -0.5
    root = i.emit(Sqrt(), i.emit(Cast(q.type.dtype), i.emit(Range((features, features + 1, 1)))))
    return i.emit(Div(), q, root), 1.0


class _Attention:
    """Imports one node of ONNX's Attention (opset 23 and later).

    It becomes a ScaledDotProductAttention, or MatMul, Softmax and MatMul if that op does not apply (f64, or
    the scores are an output). 16-bit floats are computed in f32 and rounded once, which is more precise than
    rounding after each step.
    """

    def __init__(self, i: OnnxImporter) -> None:
        self.i = i
        q, k, v = (i.input(number) for number in range(3))
        ranks = {x.type.rank for x in (q, k, v)}
        if ranks not in ({3}, {4}):
            raise i.fail("Q, K and V must all have 3 axes, or all have 4 axes")
        self.flat = ranks == {3}
        self.dtype: DType = q.type.dtype
        if self.flat:
            heads, groups = int(i.required_attr("q_num_heads")), int(i.required_attr("kv_num_heads"))
            q, k, v = (self._split(x, n) for x, n in ((q, heads), (k, groups), (v, groups)))
        self.axes = HEADS_INSIDE if self.flat else CANONICAL
        self.k, self.v, self.k_axes = k, v, self.axes
        self.offset: Dim = 0
        past_key, past_value = i.optional(4), i.optional(5)
        if past_key is not None and past_value is not None:
            self.offset = past_key.type.dims[2]
            self.k, self.v = (
                i.emit(Concat(2), past, self._canonical(x))
                for past, x in ((past_key, self.k), (past_value, self.v))
            )
            self.k_axes = CANONICAL
        self.queries = q.type.dims[self.axes[2]]
        self.keys = self.k.type.dims[self.k_axes[2]]
        self.lengths = i.optional(6)
        given = i.attr("scale")
        self.q: Any = q
        if given is None:
            self.q, given = scaled(i, q, q.type.dims[3])
        self.scale = float(given)
        self.softcap = float(i.attr("softcap", 0.0))
        self.causal = bool(i.attr("is_causal", 0))
        self.windows = int(i.attr("left_window_size", -1)), int(i.attr("right_window_size", -1))

    def outputs(self) -> tuple[Any, ...]:
        i, count = self.i, self.i.output_count
        precision = (
            None if i.attr("softmax_precision") is None else dtype_attribute(i, i.attr("softmax_precision"))
        )
        scores = None
        if self._fuses(precision) and count <= 3:
            y = self._fused()
        else:
            y, scores = self._decomposed(precision)
        if self.flat:
            y = i.emit(Reshape((0, 0, -1)), y)
        present = (self.k, self.v) if self.k_axes == CANONICAL else map(self._canonical, (self.k, self.v))
        return (y, *present, scores)[:count] if count > 1 else (y,)

    def _fuses(self, precision: DType | None) -> bool:
        """Whether f32 represents all operands, and is at least as precise as the required
        ``softmax_precision``.
        """
        dtypes = {self.dtype, self.v.type.dtype}
        return dtypes <= {F32, F16, BF16} and precision in (None, F32, *dtypes)

    def _fused(self) -> Any:
        """ScaledDotProductAttention. Its ``causal`` does not apply with lengths or windows, which become a
        mask.
        """
        plain = self.lengths is None and self.windows == (-1, -1)
        op = ScaledDotProductAttention(
            self.scale, self.softcap, self.causal and plain, self.offset if self.causal and plain else 0,
            "empty", self.axes, self.k_axes, self.k_axes, self.axes, precision=_precision_of(self.dtype),
        )  # fmt: skip
        mask = self._bias(with_causal=not plain)
        operands = (self.q, self.k, self.v, *([] if mask is None else [mask]))
        y = self.i.emit(op, *(self._as(F32, operand) for operand in operands))
        return self._as(self.dtype, y)

    def _as(self, dtype: DType, x: Any) -> Any:
        return x if x.type.dtype == dtype else self.i.emit(Cast(dtype), x)

    def _decomposed(self, precision: DType | None) -> tuple[Any, Any]:
        """The result in the axes of the query, and the scores that ``qk_matmul_output_mode`` selects."""
        i, mode = self.i, int(self.i.attr("qk_matmul_output_mode", 0))
        q = self._canonical(self.q)
        k, v = (self.k, self.v) if self.k_axes == CANONICAL else map(self._canonical, (self.k, self.v))
        heads, groups = q.type.dims[1], k.type.dims[1]
        grouped = heads != groups
        if grouped and isinstance(heads, int) and isinstance(groups, int):
            q = i.emit(Reshape((0, groups, heads // groups, -1, q.type.dims[3])), q)
            k, v = (i.emit(Unsqueeze((2,)), x) for x in (k, v))
        transposed = i.emit(Transpose((0, 1, 2, 4, 3) if grouped else (0, 1, 3, 2)), k)
        root = self._number(self.scale**0.5)
        scores = i.emit(MatMul(), i.emit(Mul(), q, root), i.emit(Mul(), transposed, root))
        if grouped:
            scores = i.emit(Reshape((0, heads, self.queries, self.keys)), scores)
        by_mode = self._softmax_steps(scores, precision)
        probabilities = by_mode[3]
        if grouped and isinstance(heads, int) and isinstance(groups, int):
            shape = (0, groups, heads // groups, self.queries, self.keys)
            probabilities = i.emit(Reshape(shape), probabilities)
        y = i.emit(MatMul(), probabilities, v)
        if grouped:
            y = i.emit(Reshape((0, heads, self.queries, v.type.dims[4])), y)
        return (self._canonical(y) if self.flat else y), i.emit(Identity(), by_mode[mode])

    def _softmax_steps(self, scores: Any, precision: DType | None) -> tuple[Any, Any, Any, Any]:
        """The scores, the scores after softcap, the scores with the bias added, and the probabilities."""
        i, capped = self.i, scores
        if self.softcap:
            cap = self._number(self.softcap)
            capped = i.emit(Mul(), i.emit(Tanh(), i.emit(Div(), scores, cap)), cap)
        bias = self._bias(with_causal=True)
        biased = capped if bias is None else i.emit(Add(), capped, bias)
        softmax = i.emit(Softmax(), biased if precision is None else i.emit(Cast(precision), biased))
        probabilities = softmax if precision is None else i.emit(Cast(self.dtype), softmax)
        if bias is not None:
            empty = i.emit(Equal(), i.emit(ReduceMax((-1,)), bias), self._number(-np.inf))
            probabilities = i.emit(Where(), empty, self._number(0), probabilities)
        return scores, capped, biased, probabilities

    def _bias(self, with_causal: bool) -> Any:
        """The sum of all masks, which is added to the scores, in the dtype of the query; None if there is
        none.
        """
        i, mask = self.i, self.i.optional(3)
        allowed = self._visible(with_causal)
        bias = None
        if mask is not None:
            mask = self._pad_mask(mask)
            if mask.type.dtype == BOOL:
                allowed.append(mask)
            else:
                bias = mask
        if allowed:
            visible = allowed[0]
            for other in allowed[1:]:
                visible = i.emit(And(), visible, other)
            hidden = i.emit(Where(), visible, self._number(0), self._number(-np.inf))
            bias = hidden if bias is None else i.emit(Add(), bias, hidden)
        return bias

    def _pad_mask(self, mask: Any) -> Any:
        """A mask may be shorter than the number of keys; the remaining keys are masked out."""
        last, keys = mask.type.dims[-1], self.keys
        if not isinstance(last, int) or not isinstance(keys, int) or last in (1, keys):
            return mask
        rank = len(mask.type.dims)
        if mask.type.dtype == BOOL:  # pads the bias that it stands for
            padded = self._pad_mask(self.i.emit(Where(), mask, self._number(0), self._number(-np.inf)))
            return self.i.emit(Equal(), padded, self._number(0))
        pads = (*[0] * (2 * rank - 1), keys - last)
        return self.i.emit(Pad(pads), mask, self._number(-np.inf))

    def _visible(self, with_causal: bool) -> list[Any]:
        """Conditions under which a query attends to a key, bool [S, T] or [B, 1, S, T]; all must be true."""
        i, (left, right) = self.i, self.windows
        if self.lengths is None and not (with_causal and (self.causal or (left, right) != (-1, -1))):
            return []
        keys = i.emit(Range((0, self.keys, 1)))
        conditions = []
        if self.lengths is not None:
            lengths = i.emit(Reshape((-1, 1, 1, 1)), self.lengths)
            conditions.append(i.emit(Less(), keys, lengths))
        if not with_causal:
            return conditions
        rows = i.emit(Reshape((-1, 1)), i.emit(Range((self.offset, self.offset + self.queries, 1))))
        if self.lengths is not None and i.optional(4) is None:
            past = i.emit(Sub(), lengths, self._integer(self.queries))
            rows = i.emit(Add(), rows, past)
        if self.causal:
            conditions.append(i.emit(LessOrEqual(), keys, rows))
        if left >= 0:
            conditions.append(i.emit(LessOrEqual(), i.emit(Sub(), rows, self._integer(left)), keys))
        if right >= 0:
            conditions.append(i.emit(LessOrEqual(), keys, i.emit(Add(), rows, self._integer(right))))
        return conditions

    def _split(self, x: Any, heads: int) -> Any:
        """[B, S, H * D] as [B, S, H, D]."""
        return self.i.emit(Reshape((0, 0, heads, -1)), x)

    def _canonical(self, x: Any) -> Any:
        return self.i.emit(Transpose(self.axes), x) if self.axes != CANONICAL else x

    def _number(self, value: float) -> Any:
        return self.i.const(np.asarray(value, dtype=self.dtype.numpy))

    def _integer(self, value: Dim) -> Any:
        return self.i.emit(Range((value, value + 1, 1)))


ScaledDotProductAttention.onnx = {("Attention", 23): ranked(lambda i: _Attention(i).outputs())}


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


def _aten_flash_attention(i: AtenImporter) -> Any:
    """Output 1, the logsumexp of the scores for gradients, is not supported. A query that attends to no key
    gives zeros.
    """
    if i.is_used(1):
        raise i.fail("its output logsumexp is not supported")
    q, k, v, mask = i.input(0), i.input(1), i.input(2), i.optional(_MASK)
    scale = i.attr("scale")
    if scale is None:
        q, scale = scaled(i, q, q.type.dims[-1])
    op = ScaledDotProductAttention(
        float(scale), causal=bool(i.attr("is_causal")), guard="empty", precision=_precision_of(q.type.dtype)
    )
    return as_dtype(i.builder, i.emit(op, *_operands(i, op, q, k, v, mask)), q.type.dtype), None


def _operands(i: Importer, op: ScaledDotProductAttention, *given: Value | None) -> list[Value | None]:
    """q, k, v and the mask, cast to f32 except for k and v in the precision of ``op``."""
    kept = [k in (1, 2) and x is not None and x.type.dtype == op.precision for k, x in enumerate(given)]
    return [
        x if x is None or keep else as_dtype(i.builder, x, F32) for x, keep in zip(given, kept, strict=True)
    ]


def _precision_of(dtype: DType) -> DType | None:
    """The precision of the matrix multiplications for operands of ``dtype``."""
    return BF16 if dtype == BF16 else None


_MASK = 5
"""The position of the mask among the arguments of PyTorch's operator."""
ScaledDotProductAttention.aten = {"_scaled_dot_product_flash_attention_for_cpu": _aten_flash_attention}
