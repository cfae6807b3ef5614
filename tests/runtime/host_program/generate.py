"""Random graphs of matrices in which the host has to run nodes: by elements, texts, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.control.if_ import If
from graphwright.ops.control.loop import Loop
from graphwright.ops.core.binary import Add, Greater, Max, Mul
from graphwright.ops.core.compress import Compress
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.non_zero import NonZero
from graphwright.ops.core.reductions import ReduceMax, ReduceSum
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Abs, Neg, Relu, Tanh
from graphwright.ops.core.unique import Unique

Array = np.ndarray[Any, Any]
COLUMNS = 4


@dataclass
class Case:
    """A module whose inputs are matrices ``[N, 4]``, a vector of counts, and the numbers of its rows."""

    module: Module
    rows: Sequence[int] = (1, 3, 0, 7)

    def feeds(self, rows: int, seed: int) -> list[Array]:
        random = np.random.default_rng([seed, rows])
        matrix = np.round(random.standard_normal((rows, COLUMNS)), 1).astype(np.float32)
        return [matrix, random.integers(1, 4, 2)]


@dataclass
class _Growing:
    """A graph that gains nodes; ``matrices`` have 4 columns and rows that no one may know."""

    b: Builder
    random: Random
    counts: Value
    matrices: list[Value] = field(default_factory=list)

    def one(self) -> Value:
        return self.random.choice(self.matrices)

    def elementwise(self) -> Value:
        ops: Sequence[Op] = (Relu(), Tanh(), Neg(), Abs())
        made: Value = self.b(self.random.choice(ops), self.one())
        return made

    def pair(self) -> Value:
        one = self.one()
        made: Value = self.b(self.random.choice((Add(), Mul(), Max())), one, self.b(Tanh(), one))
        return made

    def product(self) -> Value:
        weight = np.random.default_rng(self.random.randrange(9)).standard_normal((COLUMNS, COLUMNS)) / 4
        made: Value = self.b(MatMul(), self.one(), self.b.const(weight.astype(np.float32)))
        return made

    def scaled(self) -> Value:
        """Times a row of its columns' sums."""
        one = self.one()
        made: Value = self.b(Tanh(), self.b(Mul(), one, self.b(ReduceSum((0,), keepdims=True), one)))
        return made

    def joined(self) -> Value:
        made: Value = self.b(Concat(0), self.one(), self.one())
        return made

    def compressed(self) -> Value:
        """The rows whose greatest element is above 0."""
        one = self.one()
        mask = self.b(Greater(), self.b(ReduceMax((1,), keepdims=False), one), self.b.const(0.0, F32))
        made: Value = self.b(Compress(0), one, mask)
        return made

    def nonzero_rows(self) -> Value:
        """The rows of elements above 0, once for each."""
        one = self.one()
        places = self.b(NonZero(), self.b(Relu(), one))
        made: Value = self.b(Gather(0), one, self.b(Gather(0), places, self.b.const(0, I64)))
        return made

    def unique_rows(self) -> Value:
        found = self.b(Unique(0, sorted=True), self.one())
        made: Value = found[0]
        return made

    def sliced(self) -> Value:
        """A slice with as many rows as an input says."""
        first = self.b.const([0], I64)
        last = self.b(Slice((0,), (1,), (0,), (1,)), self.counts)
        made: Value = self.b(Slice(), self.one(), first, last, self.b.const([0], I64))
        return made

    def reshaped(self) -> Value:
        """Reshapes by a computed shape: to columns, then back to rows of 4."""
        two = self.b(Concat(0), self.b.const([-1], I64), self.b(Mul(), self.b.const([COLUMNS], I64), self.b(
            Slice((1,), (2,), (0,), (1,)), self.counts)))  # fmt: skip
        tall = self.b(Concat(0), *[self.one()] * 6)  # of 1, 2 or 3 times 4 columns
        wide = self.b(Reshape(), tall, two)
        made: Value = self.b(Reshape((-1, COLUMNS)), self.b(Relu(), wide))
        return made

    def branched(self) -> Value:
        """Other rows in each branch."""
        one = self.one()
        condition = self.b(Greater(), self.b(ReduceSum((0, 1), keepdims=False), one), self.b.const(0.0, F32))
        then, other = (self._region(one.type, name) for name in ("then", "other"))
        made: Value = self.b(If(1), condition, one, regions=(then, other))
        return made

    def repeated(self) -> Value:
        """Three runs, each of which may change the rows."""
        one = self.one()
        body = Graph("body")
        body.add_input(TensorType(I64, ()), "i")
        x = body.add_input(TensorType(F32, (self.b.module.symbols.fresh("carried"), COLUMNS)), "x")
        inner = _Growing(Builder(self.b.module, body), self.random, self.counts, [x])
        grown = inner.b(Tanh(), inner.b(Concat(0), x, inner.b(Relu(), x)))
        body.set_outputs([grown])
        made: Value = self.b(Loop(1, trips=2), one, regions=(body,))
        return made

    def _region(self, type: TensorType, name: str) -> Graph:
        region = Graph(name)
        x = region.add_input(type, "x")
        inner = _Growing(Builder(self.b.module, region), self.random, self.counts, [x])
        for _ in range(self.random.randrange(1, 3)):
            kinds = (_Growing.elementwise, _Growing.compressed, _Growing.unique_rows, _Growing.product)
            inner.matrices.append(self.random.choice(kinds)(inner))
        region.set_outputs([inner.matrices[-1]])
        return region


_NATIVE: Sequence[Callable[[_Growing], Value]] = (
    _Growing.elementwise,
    _Growing.pair,
    _Growing.product,
    _Growing.scaled,
    _Growing.joined,
)
_HOSTED: Sequence[Callable[[_Growing], Value]] = (
    _Growing.compressed,
    _Growing.nonzero_rows,
    _Growing.unique_rows,
    _Growing.sliced,
    _Growing.reshaped,
    _Growing.branched,
    _Growing.repeated,
)


def case(random: Random, steps: int = 10) -> Case:
    """A module of about ``steps`` nodes, a third of which the host has to run."""
    module = Module()
    inputs = [("x", TensorType(F32, (symbol("N"), COLUMNS))), ("counts", TensorType(I64, (2,)))]
    b, (x, counts) = new_main_graph(module, inputs)
    growing = _Growing(b, random, counts, [x])
    for _ in range(steps):
        kinds = _HOSTED if random.random() < 0.35 else _NATIVE
        if len(growing.matrices) > 4:
            growing.matrices.pop(random.randrange(3))
        growing.matrices.append(random.choice(kinds)(growing))
    last = growing.matrices[-1]
    outputs = [last, b(Transpose((1, 0)), last), random.choice(growing.matrices), growing.one()]
    module.main.set_outputs(outputs, [f"y{k}" for k in range(len(outputs))])
    return Case(module)
