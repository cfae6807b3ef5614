"""Random modules with feeds, and for each output how far a right answer may be from NumPy's.

Each value carries a bound of its elements and of the error that roundings in any order may have left; steps
that would let either grow too large, or that would turn an error into a jump (comparisons, floor), are left
out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from graphwright import ops
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.op import Array, Op
from graphwright.ir.symbols import Dim, Expr, Range, product, symbol
from graphwright.ir.symbols import evaluate as evaluate_dim
from graphwright.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType, TensorType
from graphwright.ops.control.if_ import If
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.binary import (
    Add,
    And,
    BitwiseXor,
    Greater,
    Less,
    LessOrEqual,
    Max,
    Min,
    Mul,
    Or,
    Sub,
    Xor,
)
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.flatten import Flatten
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.reduce_log_sum_exp import ReduceLogSumExp
from graphwright.ops.core.reductions import ReduceL2, ReduceMax, ReduceMean, ReduceMin, ReduceSum
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.split import Split
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import (
    Abs,
    Cos,
    Erf,
    Floor,
    HardSwish,
    Log,
    Neg,
    Not,
    Relu,
    Sigmoid,
    Sign,
    Sin,
    Softplus,
    Sqrt,
    Tanh,
)
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.activations import Elu, Gelu, HardSigmoid, LeakyRelu, Swish
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.layer_normalization import LayerNormalization, RMSNormalization
from graphwright.ops.nn.softmax import LogSoftmax, Softmax

ops.load()

EPSILON = {F64: 1e-13, F32: 2.0**-22, F16: 2.0**-10, BF16: 2.0**-7}
"""What one operation may be off, relative to the largest element."""
EXACT = {
    F64: 2.0**40,
    F32: 2.0**24,
    F16: 2048.0,
    BF16: 256.0,
    I64: 2.0**31,
    I32: 2.0**30,
    I8: 127.0,
    U8: 255.0,
    BOOL: 1.0,
}
"""Integers up to this one are exact."""
DTYPES = (F32, F32, F32, F32, F32, F64, F16, BF16, I64, I32, U8, I8, BOOL)
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
MOST_ELEMENTS = 20_000
MOST_ERROR = 0.02
LARGEST = {"N": 7, "M": 5}
N, M = symbol("N"), symbol("M")
END = 2**63 - 1


@dataclass(frozen=True)
class Known:
    """``bound`` of the absolute elements, ``error`` in them, and whether all are integers."""

    bound: float
    error: float = 0.0
    integral: bool = True

    @property
    def exact(self) -> bool:
        return self.error == 0


@dataclass
class Case:
    """A module, the sizes to feed it, and the error that each output may show."""

    module: Module
    sizes: list[dict[str, int]]
    errors: list[float]
    known: list[Known]

    def feeds(self, sizes: dict[str, int], seed: int = 0) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [
            filled(v.type.dtype, [evaluate_dim(d, sizes) for d in v.type.dims], known, rng)
            for v, known in zip(self.module.main.inputs, self.known, strict=True)
        ]


def filled(dtype: DType, shape: Sequence[int], known: Known, rng: np.random.Generator) -> Array:
    """Numbers that ``known`` describes."""
    bound = int(known.bound)
    if not known.integral:
        return np.asarray(rng.uniform(-bound, bound, shape)).astype(dtype.numpy)
    low = 0 if dtype.kind in ("bool", "uint") else -bound
    return np.asarray(rng.integers(low, bound + 1, shape)).astype(dtype.numpy)


SMOOTH: tuple[tuple[Op, float, float], ...] = (
    (Sigmoid(), 0.25, 1.0), (Tanh(), 1.0, 1.0), (Erf(), 1.2, 1.0), (Sin(), 1.0, 1.0), (Cos(), 1.0, 1.0),
    (HardSigmoid(), 0.2, 1.0), (HardSwish(), 1.6, math.inf), (Gelu(), 1.2, math.inf), (Swish(), 1.2,
    math.inf), (Elu(), 1.0, math.inf), (LeakyRelu(0.25), 1.0, math.inf), (Softplus(), 1.0, math.inf),
)  # fmt: skip
"""Functions of floats: op, largest slope, bound (infinity: that of the operand plus 1)."""


class Grower:
    """Appends random nodes to a graph."""

    def __init__(self, random: Random, b: Builder, depth: int) -> None:
        self.random, self.b, self.depth = random, b, depth
        self.known: dict[Value, Known] = {}
        self.size: Dim = 3
        """A size to broadcast to: a symbol where the inputs give it."""
        self.steps: list[Callable[[Value], None]] = [
            self.keep_exact, self.keep_exact, self.smooth, self.smooth, self.smooth, self.positive,
            self.binary, self.binary, self.binary, self.compared, self.chosen, self.logical, self.cast,
            self.transpose, self.view, self.view, self.merged, self.merged, self.expand, self.slice,
            self.split, self.concat, self.pad, self.gather, self.reduced, self.reduced, self.softmax,
            self.softmax, self.normalized, self.normalized, self.matmul, self.conv, self.arg, self.branch,
        ]  # fmt: skip

    # -- values ---------------------------------------------------------------------------------------------

    def add(self, value: Value, known: Known) -> Value:
        """Keep a value; its error grows by one rounding unless it is exact."""
        exact = known.exact and known.integral and known.bound <= EXACT[value.type.dtype]
        error = 0.0 if exact else known.error + EPSILON.get(value.type.dtype, 0.0) * max(known.bound, 1e-3)
        if error > MOST_ERROR or known.bound > EXACT[value.type.dtype]:
            self.discard(value)
            return value
        self.known[value] = replace(known, error=error, integral=known.integral and exact)
        return value

    def same(self, value: Value, known: Known) -> None:
        """Keep a value that moves or selects elements: no rounding."""
        self.known[value] = known

    def discard(self, value: Value) -> None:
        """Leave it unused: dead code."""

    def elements(self, value: Value) -> int:
        return self.most(product(value.type.dims))

    def most(self, dim: Dim) -> int:
        return evaluate_dim(dim, LARGEST)

    def pick(self, *fits: Callable[[Value], bool]) -> Value | None:
        """A value that fits, later ones rather."""
        found = [v for v in self.known if all(f(v) for f in fits)]
        if not found:
            return None
        return found[max(self.random.randrange(len(found)), self.random.randrange(len(found)))]

    def constant(self, dtype: DType, shape: Sequence[int], bound: int = 3, integral: bool = True) -> Value:
        """A constant, which counts as a value from now on."""
        rng = np.random.default_rng(self.random.randrange(1000))
        known = Known(1 if dtype == BOOL else bound, 0.0, integral or not dtype.is_float)
        value: Value = self.b.const(filled(dtype, shape, known, rng))
        self.known[value] = known
        return value

    def partner(self, x: Value) -> Value:
        """Something of the same dtype that broadcasts with ``x``."""
        if self.random.random() < 0.55:
            other = self.pick(lambda v: v.type.dtype == x.type.dtype and self.broadcasts(v, x))
            if other is not None:
                return other
        dims = [d if isinstance(d, int) and self.random.random() < 0.6 else 1 for d in x.type.dims]
        dims = dims[self.random.randrange(len(dims) + 1) :]
        return self.constant(x.type.dtype, dims, integral=self.random.random() < 0.6)

    def broadcasts(self, a: Value, b: Value) -> bool:
        pairs = zip(reversed(a.type.dims), reversed(b.type.dims), strict=False)
        if not all(x == y or x == 1 or y == 1 for x, y in pairs):
            return False
        rank = max(len(a.type.dims), len(b.type.dims))
        shapes = [(1,) * (rank - len(v.type.dims)) + v.type.dims for v in (a, b)]
        return self.most(product([y if x == 1 else x for x, y in zip(*shapes, strict=True)])) <= MOST_ELEMENTS

    # -- steps ----------------------------------------------------------------------------------------------

    def grow(self, count: int) -> None:
        for _ in range(count):
            x = self.pick()
            if x is not None:
                self.random.choice(self.steps)(x)

    def keep_exact(self, x: Value) -> None:
        """Functions that round nothing."""
        known, dtype = self.known[x], x.type.dtype
        if dtype == BOOL:
            self.same(self.b(Not(), x), known)
            return
        choices: list[Op] = [Relu(), Abs(), Neg(), Clip(-2, 3)] if dtype.kind != "uint" else [Clip(1, 3)]
        if known.exact and dtype.is_float:
            choices += [Sign(), Floor()]
        op = self.random.choice(choices)
        if dtype == I8 and isinstance(op, Neg | Abs) and known.bound > 127:
            return
        integral = known.integral or isinstance(op, Sign | Floor)
        self.same(self.b(op, x), Known(max(known.bound + isinstance(op, Floor), 3), known.error, integral))

    def smooth(self, x: Value) -> None:
        known = self.known[x]
        if not x.type.dtype.is_float:
            return
        if self.random.random() < 0.2 and known.bound <= 4:
            powers = math.exp(known.bound)
            self.add(self.b(Exp(), x), Known(powers, powers * known.error, False))
            return
        op, slope, bound = self.random.choice(SMOOTH)
        bound = known.bound + 1 if math.isinf(bound) else bound
        error = slope * known.error + EPSILON[x.type.dtype] * known.bound
        self.add(self.b(op, x), Known(bound, error, False))

    def positive(self, x: Value) -> None:
        """Functions of ``|x| + 1``."""
        known = self.known[x]
        if not x.type.dtype.is_float:
            return
        above = self.b(Add(), self.b(Abs(), x), self.b.const(1.0, x.type.dtype))
        op = self.random.choice((Sqrt(), Log()))
        error = known.error + EPSILON[x.type.dtype] * (known.bound + 1)
        self.add(self.b(op, above), Known(known.bound + 1, error, False))

    def binary(self, x: Value) -> None:
        y, dtype = self.partner(x), x.type.dtype
        a, b = self.known[x], self.known[y]
        if dtype == BOOL:
            self.same(self.b(self.random.choice((And(), Or(), Xor())), x, y), a)
            return
        if self.random.random() < 0.5:
            x, y, a, b = y, x, b, a
        integral = a.integral and b.integral
        match self.random.randrange(6):
            case 0:
                self.add(self.b(Add(), x, y), Known(a.bound + b.bound, a.error + b.error, integral))
            case 1 if dtype.kind != "uint":
                self.add(self.b(Sub(), x, y), Known(a.bound + b.bound, a.error + b.error, integral))
            case 2:
                error = a.error * (b.bound + b.error) + b.error * a.bound
                self.add(self.b(Mul(), x, y), Known(a.bound * b.bound, error, integral))
            case 3:
                op = self.random.choice((Max(), Min()))
                self.same(self.b(op, x, y), Known(max(a.bound, b.bound), max(a.error, b.error), integral))
            case 4 if dtype.is_float:
                below = self.b(Add(), self.b(Abs(), y), self.b.const(1.0, dtype))
                rounding = EPSILON[dtype] * (b.bound + 1) * a.bound
                self.add(
                    self.b(Div(), x, below), Known(a.bound, a.error + b.error * a.bound + rounding, False)
                )
            case 5 if dtype.is_integer:
                op = self.random.choice((Div(), Mod(), BitwiseXor()))
                bound = 2.0 ** math.ceil(math.log2(max(a.bound, b.bound, 1) + 1))
                if bound < EXACT[dtype]:
                    self.same(self.b(op, x, y), Known(bound))

    def compared(self, x: Value) -> None:
        y = self.partner(x)
        if x.type.dtype != BOOL and self.known[x].exact and self.known[y].exact:
            op = self.random.choice((Less(), Greater(), LessOrEqual(), Equal()))
            self.same(self.b(op, x, y), Known(1))

    def chosen(self, x: Value) -> None:
        condition = self.pick(lambda v: v.type.dtype == BOOL and self.broadcasts(v, x))
        y = self.partner(x)
        if condition is None:
            return
        pair = (
            self.b(Where(), x if condition is x else condition, x, y)
            if self.broadcasts(condition, y) and self.broadcasts(x, y)
            else None
        )
        if pair is not None:
            a, b = self.known[x], self.known[y]
            self.same(pair, Known(max(a.bound, b.bound), max(a.error, b.error), a.integral and b.integral))

    def logical(self, x: Value) -> None:
        if x.type.dtype == BOOL:
            self.same(self.b(Not(), x), Known(1))

    def cast(self, x: Value) -> None:
        known, to = self.known[x], self.random.choice(DTYPES)
        if to.is_float and (x.type.dtype.is_float or known.bound <= EXACT[to]):
            self.add(self.b(Cast(to), x), known)
        elif known.exact and known.integral and known.bound <= EXACT[to]:
            if to.kind == "uint" and x.type.dtype.kind in ("int", "float"):
                x = self.b(Abs(), x)
            self.same(self.b(Cast(to), x), known)
        elif known.exact and known.integral and to == BOOL:
            self.same(self.b(Cast(to), x), Known(1))

    def transpose(self, x: Value) -> None:
        axes = list(range(len(x.type.dims)))
        self.random.shuffle(axes)
        self.same(self.b(Transpose(tuple(axes)), x), self.known[x])

    def view(self, x: Value) -> None:
        rank = len(x.type.dims)
        ones = [a for a, d in enumerate(x.type.dims) if d == 1]
        match self.random.randrange(3):
            case 0 if rank < 5:
                self.same(self.b(Unsqueeze((self.random.randrange(rank + 1),)), x), self.known[x])
            case 1 if ones:
                self.same(self.b(Squeeze((self.random.choice(ones),)), x), self.known[x])
            case 2 if rank:
                self.same(self.b(Flatten(self.random.randrange(rank + 1)), x), self.known[x])

    def merged(self, x: Value) -> None:
        """Two neighbouring dims as one, or one as two."""
        dims = list(x.type.dims)
        at = self.random.randrange(max(len(dims), 1))
        if len(dims) >= 2 and at + 1 < len(dims) and self.random.random() < 0.5:
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        elif dims and len(dims) < 5:
            size = dims[at]
            factors = [f for f in (2, 3, 4, 8) if isinstance(size, int) and size and size % f == 0]
            if not factors:
                return
            factor = self.random.choice(factors)
            dims[at : at + 1] = (
                [factor, size // factor] if self.random.random() < 0.5 else [size // factor, factor]
            )
        self.same(self.b(Reshape(tuple(dims), allow_zero=True), x), self.known[x])

    def expand(self, x: Value) -> None:
        shape = [self.random.choice((1, 2, 5, self.size)) if d == 1 else d for d in x.type.dims]
        shape = [*self.random.choice(([], [], [2], [self.size, 3])), *shape]
        if self.most(product(shape)) <= MOST_ELEMENTS and len(shape) <= 5:
            self.same(self.b(Expand(tuple(shape)), x), self.known[x])

    def axis(self, x: Value) -> int | None:
        """An axis of a size that is a number above 1."""
        axes = [a for a, d in enumerate(x.type.dims) if isinstance(d, int) and d > 1]
        return self.random.choice(axes) if axes else None

    def slice(self, x: Value) -> None:
        axis = self.axis(x)
        if axis is None:
            return
        size = self.most(x.type.dims[axis])
        start = self.random.randrange(size)
        step = self.random.choice((1, 1, 2, -1))
        end = self.random.choice((END, size)) if step > 0 else -END
        self.same(self.b(Slice((start,), (end,), (axis,), (step,)), x), self.known[x])

    def split(self, x: Value) -> None:
        axis = self.axis(x)
        if axis is None:
            return
        size = self.most(x.type.dims[axis])
        first = self.random.randrange(1, size)
        for value in self.b(Split(2, axis, (first, size - first)), x):
            self.same(value, self.known[x])

    def concat(self, x: Value) -> None:
        rank = len(x.type.dims)
        if not rank:
            return
        axis = self.random.randrange(rank)

        def fits(v: Value) -> bool:
            return v.type.dtype == x.type.dtype and len(v.type.dims) == rank and all(
                a == b for k, (a, b) in enumerate(zip(v.type.dims, x.type.dims, strict=True)) if k != axis
            )  # fmt: skip

        parts = [v for v in (self.pick(fits) for _ in range(self.random.randrange(1, 4))) if v is not None]
        if sum(map(self.elements, parts)) > MOST_ELEMENTS:
            return
        known = [self.known[v] for v in parts]
        self.same(
            self.b(Concat(axis), *parts),
            Known(max(k.bound for k in known), max(k.error for k in known), all(k.integral for k in known)),
        )

    def pad(self, x: Value) -> None:
        rank = len(x.type.dims)
        if rank and x.type.dtype != BOOL and self.elements(x) * 2**rank <= MOST_ELEMENTS:
            pads = tuple(self.random.choice((0, 0, 1)) for _ in range(2 * rank))
            self.same(self.b(Pad(pads), x, self.b.const(np.zeros((), x.type.dtype.numpy))), self.known[x])

    def gather(self, x: Value) -> None:
        axis = self.axis(x)
        if axis is None:
            return
        size = self.most(x.type.dims[axis])
        count = self.random.randrange(1, 4)
        picked = [self.random.randrange(-size, size) for _ in range(count)]
        indices = self.b.const(np.array(picked, np.int64))
        self.same(self.b(Gather(axis), x, indices), self.known[x])

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
                self.add(self.b(op(axes, keep), x), Known(known.bound, known.error + rounding, False))
        elif dtype.is_float and known.bound < 20 and known.bound**2 * count <= EXACT[dtype]:
            if op is ReduceL2 and known.error > 0:  # the root is steep near 0
                return
            bound = (
                known.bound * math.sqrt(count) if op is ReduceL2 else known.bound + math.log(max(count, 1))
            )
            rounding = EPSILON[dtype] * (known.bound + count)
            self.add(self.b(op(axes, keep), x), Known(bound, known.error + rounding, False))

    def softmax(self, x: Value) -> None:
        known, rank = self.known[x], len(x.type.dims)
        if not x.type.dtype.is_float or not rank or not self.elements(x):
            return
        axis = self.random.choice((-1, -1, self.random.randrange(rank)))
        error = 2 * known.error + EPSILON[x.type.dtype] * known.bound
        if self.random.random() < 0.7:
            self.add(self.b(Softmax(axis), x), Known(1, error, False))
        else:
            bound = 2 * known.bound + math.log(self.most(x.type.dims[axis]) + 1)
            self.add(self.b(LogSoftmax(axis), x), Known(bound, error, False))

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
                Known(bound, error, False),
            )
        else:
            self.add(self.b(RMSNormalization(axis, 1.0), x, scale), Known(bound, error, False))

    def matmul(self, x: Value) -> None:
        dims = x.type.dims
        if len(dims) < 2 or not x.type.dtype.is_float:
            return
        other = self.pick(
            lambda v: v.type.dtype == x.type.dtype and len(v.type.dims) >= 2 and v.type.dims[-2] == dims[-1]
            and (len(v.type.dims) == 2 or v.type.dims[:-2] == dims[:-2])
        )  # fmt: skip
        if isinstance(dims[-1], int) and (other is None or self.random.random() < 0.6):
            other = self.constant(x.type.dtype, (dims[-1], self.random.choice((1, 3, 8, 17, 33))), 2, False)
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

    def branch(self, x: Value) -> None:
        condition = self.pick(lambda v: v.type.dtype == BOOL and v.type.dims == ())
        if not self.depth or condition is None:
            return
        operands = [x, *(v for v in (self.pick() for _ in range(2)) if v is not None)]
        made = [self.region(f"branch{k}", operands) for k in range(2)]
        known = [k for _, k in made]
        value = self.b(If(1), condition, *operands, regions=[region for region, _ in made])
        self.same(
            value,
            Known(max(k.bound for k in known), max(k.error for k in known), all(k.integral for k in known)),
        )

    def region(self, name: str, operands: Sequence[Value]) -> tuple[Graph, Known]:
        graph = Graph(name)
        grower = type(self)(self.random, Builder(self.b.module, graph), self.depth - 1)
        for v in operands:
            grower.known[graph.add_input(v.type)] = self.known[v]
        grower.size = self.size
        grower.grow(self.random.randrange(5))
        alike = [v for v in grower.known if v.type == operands[0].type]
        chosen = alike[-1] if self.random.random() < 0.7 else alike[0]
        graph.set_outputs([chosen])
        return graph, grower.known[chosen]


def case(
    random: Random, steps: int = 12, symbols: bool = True, growing: Callable[..., Grower] = Grower
) -> Case:
    """A random module of up to ``steps`` steps over up to four inputs."""
    module = Module()
    graph = module.add_graph(Graph("main"))
    used = symbols and random.random() < 0.5
    for name, high in LARGEST.items():
        module.symbols.ranges[name] = Range(1, high)
    grower = growing(random, Builder(module, graph), depth=2)
    dims: tuple[Dim, ...] = (N, M, *SIZES) if used else SIZES
    shape = [random.choice(dims) for _ in range(random.choice((1, 2, 2, 3, 3, 4)))]
    while grower.most(product(shape)) > 5000:
        shape[random.randrange(len(shape))] = 1
    if random.random() < 0.1:
        shape[-1] = random.choice((0, 300, 1000))
    for k in range(random.randrange(1, 4)):
        dtype = random.choice(DTYPES)
        own = [1 if random.random() < 0.15 else d for d in shape]
        own = own[random.choice((0, 0, 0, random.randrange(len(own) + 1))) :]
        value = graph.add_input(TensorType(dtype, tuple(own)), f"x{k}")
        integral = not dtype.is_float or random.random() < 0.7
        grower.known[value] = Known(1 if dtype == BOOL else 3, 0.0, integral)
    flag = graph.add_input(TensorType(BOOL, ()), "flag")
    grower.known[flag] = Known(1)
    if used:
        grower.known[graph.add_input(TensorType(F32, (N, M)), "sizes")] = Known(3)
        grower.size = N
    known = [grower.known[v] for v in graph.inputs]
    grower.grow(random.randrange(1, steps + 1))
    outputs = [v for v in grower.known if not v.uses and v not in graph.inputs][-3:]
    outputs += random.choices(list(grower.known), k=random.choice((0, 1, 2)) if outputs else 1)
    random.shuffle(outputs)
    graph.set_outputs(outputs, [f"y{k}" for k in range(len(outputs))])
    sizes = [{"N": random.randrange(1, 8), "M": random.randrange(1, 6)} for _ in range(3 if used else 1)]
    return Case(module, sizes, [grower.known[v].error for v in outputs], known)


def with_symbols(first: int, count: int) -> Iterator[int]:
    """Seeds of modules that have sizes to vary."""
    seed = first
    while count:
        if case(Random(seed)).sizes[1:]:
            yield seed
            count -= 1
        seed += 1
