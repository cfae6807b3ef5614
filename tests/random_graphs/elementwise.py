"""Steps with elementwise ops."""

from __future__ import annotations

import math

from graphwright.ir.graph import Value
from graphwright.ir.op import Op
from graphwright.ir.types import BOOL, I8
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
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.mod import Mod
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
from graphwright.ops.core.where import Where
from graphwright.ops.nn.activations import Elu, Gelu, HardSigmoid, LeakyRelu, Swish

from .values import DTYPES, EPSILON, EXACT, Known, Values

SMOOTH: tuple[tuple[Op, float, float], ...] = (
    (Sigmoid(), 0.25, 1.0), (Tanh(), 1.0, 1.0), (Erf(), 1.2, 1.0), (Sin(), 1.0, 1.0), (Cos(), 1.0, 1.0),
    (HardSigmoid(), 0.2, 1.0), (HardSwish(), 1.6, math.inf), (Gelu(), 1.2, math.inf), (Swish(), 1.2,
    math.inf), (Elu(), 1.0, math.inf), (LeakyRelu(0.25), 1.0, math.inf), (Softplus(), 1.0, math.inf),
)  # fmt: skip
"""Functions of floats: op, largest slope, bound (infinity: that of the operand plus 1)."""


class Elementwise(Values):
    """Appends elementwise ops to a graph."""

    def keep_exact(self, x: Value) -> None:
        """Limits the functions to those without rounding."""
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
            self.add(self.b(Exp(), x), Known(powers, powers * known.error, integral=False))
            return
        op, slope, bound = self.random.choice(SMOOTH)
        bound = known.bound + 1 if math.isinf(bound) else bound
        error = slope * known.error + EPSILON[x.type.dtype] * known.bound
        self.add(self.b(op, x), Known(bound, error, integral=False))

    def positive(self, x: Value) -> None:
        """Functions of ``|x| + 1``."""
        known = self.known[x]
        if not x.type.dtype.is_float:
            return
        above = self.b(Add(), self.b(Abs(), x), self.b.const(1.0, x.type.dtype))
        op = self.random.choice((Sqrt(), Log()))
        error = known.error + EPSILON[x.type.dtype] * (known.bound + 1)
        self.add(self.b(op, above), Known(known.bound + 1, error, integral=False))

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
                    self.b(Div(), x, below),
                    Known(a.bound, a.error + b.error * a.bound + rounding, integral=False),
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
        if condition is None or not (self.broadcasts(condition, y) and self.broadcasts(x, y)):
            return
        a, b = self.known[x], self.known[y]
        known = Known(max(a.bound, b.bound), max(a.error, b.error), a.integral and b.integral)
        self.same(self.b(Where(), condition, x, y), known)

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
