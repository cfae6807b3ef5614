"""Import of ONNX's Attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import OnnxImporter
from graphwright.ir.symbols import Dim, maximum, minimum
from graphwright.ir.types import BF16, BOOL, F16, F32, DType
from graphwright.ops.core.binary import Add, And, Less, LessOrEqual, Mul, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceMax
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Tanh
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.attention import (
    CANONICAL,
    HEADS_INSIDE,
    ScaledDotProductAttention,
    precision_of,
    scaled,
)
from graphwright.ops.nn.softmax import Softmax


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
            "empty", self.axes, self.k_axes, self.k_axes, self.axes, precision=precision_of(self.dtype),
        )  # fmt: skip
        mask = self._bias(with_causal=not plain)
        operands = (self.q, self.k, self.v, *([] if mask is None else [mask]))
        y = self.i.emit(op, *(self._converted(F32, operand) for operand in operands))
        return self._converted(self.dtype, y)

    def _converted(self, dtype: DType, x: Any) -> Any:
        return x if x.type.dtype == dtype else self.i.emit(Cast(dtype), x)

    def _decomposed(self, precision: DType | None) -> tuple[Any, Any]:
        """The result in the axes of the query, and the scores that ``qk_matmul_output_mode`` selects."""
        i, mode = self.i, int(self.i.attr("qk_matmul_output_mode", 0))
        q = self._canonical(self.q)
        k, v = (self.k, self.v) if self.k_axes == CANONICAL else map(self._canonical, (self.k, self.v))
        heads, groups = q.type.dims[1], k.type.dims[1]
        grouped = heads != groups
        if grouped:
            q = i.emit(Reshape((0, groups, -1, self.queries, q.type.dims[3])), q)
            k, v = (i.emit(Unsqueeze((2,)), x) for x in (k, v))
        transposed = i.emit(Transpose((0, 1, 2, 4, 3) if grouped else (0, 1, 3, 2)), k)
        root = self._number(self.scale**0.5)
        scores = i.emit(MatMul(), i.emit(Mul(), q, root), i.emit(Mul(), transposed, root))
        if grouped:
            scores = i.emit(Reshape((0, heads, self.queries, self.keys)), scores)
        by_mode = self._softmax_steps(scores, precision)
        probabilities = by_mode[3]
        if grouped:
            probabilities = i.emit(Reshape((0, groups, -1, self.queries, self.keys)), probabilities)
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
        """A mask may be shorter than the number of keys; the remaining keys are masked out.

        With dynamic sizes, masks are as long as the keys, except with the lengths of a cache.
        """
        last, keys = mask.type.dims[-1], self.keys
        dynamic = not isinstance(last, int) or not isinstance(keys, int)
        if last in (1, keys) or (dynamic and self.lengths is None):
            return mask
        missing = keys - last
        if dynamic:  # a single column is broadcast
            missing = maximum(missing, 0) * minimum(maximum(last - 1, 0), 1)
        rank = len(mask.type.dims)
        if mask.type.dtype == BOOL:  # pads the bias that it stands for
            padded = self._pad_mask(self.i.emit(Where(), mask, self._number(0), self._number(-np.inf)))
            return self.i.emit(Equal(), padded, self._number(0))
        pads = (*[0] * (2 * rank - 1), missing)
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


ScaledDotProductAttention.onnx = {
    **ScaledDotProductAttention.onnx,
    ("Attention", 23): ranked(lambda i: _Attention(i).outputs()),
}
