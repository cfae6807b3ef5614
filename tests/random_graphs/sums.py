"""Steps that combine elements: reductions, normalizations, matrix products and convolutions."""

from __future__ import annotations

import math
from dataclasses import replace

from graphwright.ir.graph import Value
from graphwright.ir.symbols import Expr, product
from graphwright.ir.types import BOOL, F32
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reduce_log_sum_exp import ReduceLogSumExp
from graphwright.ops.core.reductions import ReduceL2, ReduceMax, ReduceMean, ReduceMin, ReduceSum
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.layer_normalization import LayerNormalization, RMSNormalization
from graphwright.ops.nn.softmax import LogSoftmax, Softmax

from .values import EPSILON, EXACT, MOST_ELEMENTS, Known, Values


class Sums(Values):
    """Appends ops that combine elements to a graph."""

    def axes(self, x: Value) -> tuple[tuple[int, ...], int]:
        """Some axes, and how many elements they have at most."""
        rank = len(x.type.dims)
        if self.random.random() < 0.5:
            first = self.random.randrange(rank)
            axes = tuple(range(first, rank))
        else:
            axes = tuple(sorted(self.random.sample(range(rank), self.random.randrange(1, rank + 1))))
        return axes, self.most(product([x.type.dims[a] for a in axes]))

    def reduced(self, x: Value) -> None:
        known, dtype = self.known[x], x.type.dtype
        if dtype == BOOL or not x.type.dims:
            return
        axes, count = self.axes(x)
        if not count:  # the largest of nothing, the mean of nothing
            return
        keep = self.random.random() < 0.6
        op = self.random.choice((ReduceSum, ReduceMax, ReduceMin, ReduceMean, ReduceL2, ReduceLogSumExp))
        total = known.bound * count
        if op in (ReduceMax, ReduceMin):
            self.same(self.b(op(axes, keep), x), known)
        elif op is ReduceSum or (op is ReduceMean and not dtype.is_float):
            rounding = 0.0 if known.integral else EPSILON.get(dtype, 0.0) * total
            if total <= EXACT[dtype]:
                self.add(
                    self.b(op(axes, keep), x), Known(total, known.error * count + rounding, known.integral)
                )
        elif dtype.is_float and op is ReduceMean:
            if total <= EXACT[dtype]:
                rounding = EPSILON[dtype] * known.bound
                self.add(
                    self.b(op(axes, keep), x), Known(known.bound, known.error + rounding, integral=False)
                )
        elif dtype.is_float and known.bound < 20 and known.bound**2 * count <= EXACT[dtype]:
            if op is ReduceL2 and known.error > 0:  # the root is steep near 0
                return
            bound = (
                known.bound * math.sqrt(count) if op is ReduceL2 else known.bound + math.log(max(count, 1))
            )
            rounding = EPSILON[dtype] * (known.bound + count)
            self.add(self.b(op(axes, keep), x), Known(bound, known.error + rounding, integral=False))

    def softmax(self, x: Value) -> None:
        known, rank = self.known[x], len(x.type.dims)
        if not x.type.dtype.is_float or not rank or not self.elements(x):
            return
        axis = self.random.choice((-1, -1, self.random.randrange(rank)))
        error = 2 * known.error + EPSILON[x.type.dtype] * known.bound
        if self.random.random() < 0.7:
            self.add(self.b(Softmax(axis), x), Known(1, error, integral=False))
        else:
            bound = 2 * known.bound + math.log(self.most(x.type.dims[axis]) + 1)
            self.add(self.b(LogSoftmax(axis), x), Known(bound, error, integral=False))

    def normalized(self, x: Value) -> None:
        known, rank, dtype = self.known[x], len(x.type.dims), x.type.dtype
        if not dtype.is_float or not rank or known.bound > 100 or not self.elements(x):
            return
        axis = self.random.choice((-1, self.random.randrange(rank)))
        trailing = x.type.dims[axis:]
        if any(isinstance(d, Expr) for d in trailing):
            return
        sizes = tuple(int(d) for d in trailing)
        scale = self.constant(dtype, sizes, 2)
        error = 6 * (known.error + EPSILON[dtype] * (known.bound + 1) * 4) * (1 + known.bound)
        bound = 2 * math.sqrt(math.prod(sizes)) + 2
        if self.random.random() < 0.6:
            self.add(
                self.b(LayerNormalization(axis, 1.0), x, scale, self.constant(dtype, sizes, 2)),
                Known(bound, error, integral=False),
            )
        else:
            self.add(self.b(RMSNormalization(axis, 1.0), x, scale), Known(bound, error, integral=False))

    def matmul(self, x: Value) -> None:
        dims = x.type.dims
        if len(dims) < 2 or not x.type.dtype.is_float:
            return
        other = self.pick(
            lambda v: v.type.dtype == x.type.dtype and len(v.type.dims) >= 2 and v.type.dims[-2] == dims[-1]
            and (len(v.type.dims) == 2 or v.type.dims[:-2] == dims[:-2])
        )  # fmt: skip
        if isinstance(dims[-1], int) and (other is None or self.random.random() < 0.6):
            other = self.constant(
                x.type.dtype, (dims[-1], self.random.choice((1, 3, 8, 17, 33))), 2, integral=False
            )
        if other is None or self.most(product((*dims[:-1], other.type.dims[-1]))) > MOST_ELEMENTS:
            return
        self.contracted(self.b(MatMul(), x, other), self.known[x], self.known[other], self.most(dims[-1]))

    def contracted(self, y: Value, a: Known, b: Known, count: int) -> None:
        bound = a.bound * b.bound * count
        error = count * (a.error * b.bound + b.error * a.bound) + a.error * b.error
        integral = a.integral and b.integral
        if not (integral and bound <= EXACT[y.type.dtype]):
            error += EPSILON[y.type.dtype] * bound
        self.add(y, Known(bound, error, integral))

    def conv(self, x: Value) -> None:
        """Over the last one or two axes."""
        dims, dtype = x.type.dims, x.type.dtype
        if dtype != F32 or len(dims) not in (3, 4) or not isinstance(dims[1], int) or not self.elements(x):
            return
        depthwise = self.random.random() < 0.3
        kernel = self.random.choice((1, 3))
        features = dims[1] if depthwise else self.random.choice((1, 3, 16, 17))
        inputs = 1 if depthwise else dims[1]
        axes = len(dims) - 2
        if self.most(product((dims[0], features, *dims[2:]))) > MOST_ELEMENTS:
            return
        w = self.constant(dtype, (features, inputs, *[kernel] * axes), 2, self.random.random() < 0.5)
        operands = [x, w, *([self.constant(dtype, (features,))] if self.random.random() < 0.5 else [])]
        op = Conv(pads=(kernel // 2,) * (2 * axes), group=dims[1] if depthwise else 1)
        y = self.b(op, *operands)
        a = self.known[x]
        self.contracted(y, replace(a, bound=a.bound + 1), self.known[w], inputs * kernel**axes)

    def arg(self, x: Value) -> None:
        axis = self.axis(x)
        if axis is not None and self.known[x].exact and x.type.dtype != BOOL:
            self.same(
                self.b(ArgMax(axis, self.random.random() < 0.5), x), Known(self.most(x.type.dims[axis]))
            )
