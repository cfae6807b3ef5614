"""Inference of shape arithmetic: for all sizes, inferred values equal those that NumPy computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright import ops
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Fact, Op
from graphwright.ir.symbols import Dim, Expr, substitute, symbol
from graphwright.ir.types import BOOL, F32, F64, I32, I64, TensorType, tensor
from graphwright.ops.control.if_ import If
from graphwright.ops.core.binary import Add, And, Greater, Less, Max, Min, Mul, Or, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceMax, ReduceProd, ReduceSum
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.size import Size
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.tile import Tile
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Neg
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.passes.base import Record
from graphwright.passes.infer_shapes import ShapeInference, infer_module

ops.load()
N, M = symbol("N"), symbol("M")
Array = np.ndarray[Any, Any]


@dataclass
class Facts:
    """The facts about all values, collected during a walk."""

    known: dict[Value, Fact] = field(default_factory=dict)

    def __call__(self, walk: ShapeInference, node: Node, facts: Sequence[Fact]) -> bool:
        self.known.update(zip(node.outputs, facts, strict=True))
        return False


def facts_of(module: Module) -> dict[Value, Fact]:
    facts = Facts()
    infer_module(module, Record("infer"), facts)
    return facts.known


@dataclass
class Arithmetic:
    """A random chain on sizes of ``x: f32[N, 3, M]`` and elements of ``k: i64[2]``, and its NumPy twin.

    ``steps`` make the array of each value from those before it.
    """

    draw: Any
    b: Builder
    values: list[Value]
    steps: list[Callable[[list[Array]], Array]] = field(default_factory=list)
    multiplied: bool = False

    def add(self, value: Value, step: Callable[[list[Array]], Array]) -> int:
        self.values.append(value)
        self.steps.append(step)
        return len(self.values) - 1

    def vector(self) -> int:
        """A vector of integers so far."""
        fits = [i for i, v in enumerate(self.values) if v.type.dtype == I64 and v.type.rank == 1]
        return int(self.draw(st.sampled_from([i for i in fits if self.values[i].type.is_static])))

    def constant(self, low: int, high: int, size: int) -> int:
        array = np.array(self.draw(st.lists(st.integers(low, high), min_size=size, max_size=size)), np.int64)
        return self.add(self.b.const(array), lambda _: array)

    def size(self, i: int) -> int:
        return int(self.values[i].type.sizes[0])

    def binary(self) -> None:
        i = self.vector()
        op, function, low = self.draw(st.sampled_from(BINARY))
        j = self.constant(low, 4, self.draw(st.sampled_from((1, self.size(i)))))
        if low < 0 and self.draw(st.booleans()):
            i, j = j, i
        self.add(self.b(op, self.values[i], self.values[j]), lambda a: function(a[i], a[j]))

    def compared(self) -> None:
        i = self.vector()
        op, function = self.draw(st.sampled_from(COMPARED))
        j, k = self.constant(-1, 3, 1), self.constant(-1, 3, self.size(i))
        condition = self.add(self.b(op, self.values[i], self.values[j]), lambda a: function(a[i], a[j]))
        self.add(
            self.b(Where(), *(self.values[v] for v in (condition, i, k))),
            lambda a: np.where(a[condition], a[i], a[k]),
        )

    def joined(self) -> None:
        i, j = self.vector(), self.vector()
        if self.size(i) + self.size(j) <= 8:
            self.add(
                self.b(Concat(0), self.values[i], self.values[j]), lambda a: np.concatenate([a[i], a[j]])
            )

    def picked(self) -> None:
        i = self.vector()
        if not self.size(i):
            return
        places = self.draw(st.lists(st.integers(-self.size(i), self.size(i) - 1), max_size=3))
        j = self.add(self.b.const(np.array(places, np.int64)), lambda _: np.array(places, np.int64))
        self.add(self.b(Gather(), self.values[i], self.values[j]), lambda a: a[i][a[j]])

    def sliced(self) -> None:
        """A slice backwards from before the first element starts at that one, unlike in NumPy."""
        i = self.vector()
        start, end, step = self.draw(
            st.tuples(st.integers(-3, 3), st.integers(-3, 9), st.sampled_from((1, 2, -1)))
        )
        self.add(
            self.b(Slice((start,), (end,), (0,), (step,)), self.values[i]),
            lambda a: a[i][start if step > 0 else max(start, -len(a[i])) : end : step],
        )

    def viewed(self) -> None:
        i = self.vector()
        up = self.b(Unsqueeze((0,)), self.values[i])
        turned = self.b(Transpose((1, 0)), up)
        shown = self.b(Squeeze((1,)), turned)
        self.add(self.b(Cast(I64), self.b(Cast(I32), shown)), lambda a: a[i])

    def folded(self) -> None:
        """One product, of two elements at most: what no int64 holds is no size."""
        i = self.vector()
        op, function = self.draw(st.sampled_from(FOLDED))
        if not self.size(i) or (op is ReduceProd and (self.multiplied or self.size(i) > 2)):
            return
        self.multiplied |= op is ReduceProd
        self.add(
            self.b(op((0,), keepdims=True), self.values[i]),
            lambda a: np.asarray(function(a[i], keepdims=True)),
        )

    def repeated(self) -> None:
        i = self.vector()
        if self.size(i) <= 3:
            self.add(self.b(Tile((2,)), self.values[i]), lambda a: np.tile(a[i], 2))

    def negative(self) -> None:
        i = self.vector()
        self.add(self.b(Neg(), self.values[i]), lambda a: -a[i])


def _divide(a: Array, b: Array) -> Array:
    return np.sign(a) * (np.abs(a) // b)


BINARY: tuple[tuple[Op, Callable[[Array, Array], Array], int], ...] = (
    (Add(), np.add, -4), (Sub(), np.subtract, -4), (Mul(), np.multiply, -4), (Min(), np.minimum, -4),
    (Max(), np.maximum, -4), (Div(), _divide, 1), (Mod(), np.mod, 1),
)  # fmt: skip
FOLDED: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (ReduceSum, np.sum),
    (ReduceProd, np.prod),
    (ReduceMax, np.max),
)
COMPARED = ((Equal(), np.equal), (Less(), np.less), (Greater(), np.greater))


def check(fact: Fact, array: Array, sizes: dict[str, int]) -> int:
    """Compare what is known with the array; the number of elements that were."""
    shape = tuple(number(dim, sizes) for dim in fact.type.dims)
    assert shape == array.shape
    known = fact.elements if fact.elements is not None else fact.partial_elements
    if known is None:
        return 0
    assert len(known) == array.size
    pairs = [(number(e, sizes), int(a)) for e, a in zip(known, array.ravel(), strict=True) if e is not None]
    assert all(e == a for e, a in pairs), (known, array)
    return len(pairs)


def number(dim: Dim, sizes: dict[str, int]) -> int:
    found = substitute(dim, sizes) if isinstance(dim, Expr) else dim
    assert isinstance(found, int)
    return found


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_propagated_elements_equal_numpys(data: st.DataObject) -> None:
    module = Module()
    b, (x, k) = new_main_graph(module, [("x", tensor(F32, N, 3, M)), ("k", tensor(I64, 2))])
    arithmetic = Arithmetic(data.draw, b, [b(Shape(), x), k])
    moves = (
        Arithmetic.binary, Arithmetic.compared, Arithmetic.joined, Arithmetic.picked, Arithmetic.sliced,
        Arithmetic.viewed, Arithmetic.folded, Arithmetic.repeated, Arithmetic.negative,
    )  # fmt: skip
    for move in data.draw(st.lists(st.sampled_from(moves), min_size=1, max_size=10)):
        move(arithmetic)
    b.graph.set_outputs([v for v in arithmetic.values if v.producer is not None], [])
    facts = facts_of(module)
    for n, m in ((1, 1), (2, 7), (5, 3)):
        elements = data.draw(st.lists(st.integers(-3, 9), min_size=2, max_size=2))
        arrays = [np.array([n, 3, m]), np.array(elements)]
        for step in arithmetic.steps:
            arrays.append(step(arrays))
        for value, array in zip(arithmetic.values, arrays, strict=True):
            if value in facts:
                check(facts[value], array, {"N": n, "M": m})


def _graph(*inputs: tuple[str, TensorType]) -> tuple[Module, Builder, tuple[Value, ...]]:
    module = Module()
    b, values = new_main_graph(module, inputs)
    return module, b, values


def _output(module: Module, b: Builder, value: Value) -> Fact:
    b.graph.set_outputs([value], ["y"])
    infer_module(module, Record("infer"), facts := Facts())
    (found,) = b.graph.outputs
    return facts.known[found]


def test_one_unknown_size_of_a_reshape_takes_the_rest() -> None:
    module, b, (x, k) = _graph(("x", tensor(F32, N, 4, 6)), ("k", tensor(I64, 1)))
    size = b(Gather(), b(Shape(), x), b.const(np.array([0])))
    target = b(Concat(0), size, k, b.const(np.array([8])))
    assert _output(module, b, b(Reshape(), x, target)).type == tensor(F32, N, 3, 8)


@pytest.mark.parametrize("rest", [(0, 1), (-1, 1)])
def test_a_reshape_with_more_dynamic_sizes_keeps_those_that_are_known(rest: tuple[int, int]) -> None:
    """A 0 copies a size and a -1 takes the rest, so neither determines the unknown size."""
    module, b, (x, k) = _graph(("x", tensor(F32, N, 4, 6)), ("k", tensor(I64, 1)))
    target = b(Concat(0), k, b.const(np.array([*rest, 8])))
    found = _output(module, b, b(Reshape(), x, target)).type
    assert found.rank == 4 and found.dims[2:] == (1, 8)
    assert all(isinstance(dim, Expr) for dim in found.dims[:2])


def test_known_sizes_stay_next_to_data_dependent_ones() -> None:
    cases: list[tuple[Callable[[Builder, Value, Value], Value], tuple[Dim | None, ...]]] = [
        (lambda b, x, t: b(Expand(), x, t), (N, None, 5)),
        (lambda b, x, t: b(ConstantOfShape(), t), (N, None, 5)),
        (lambda b, x, t: b(Tile(), x, t), (N * N, None, 5)),
    ]
    for make, wanted in cases:
        module, b, (x, k) = _graph(("x", tensor(F32, N, 1, 1)), ("k", tensor(I64, 1)))
        size = b(Gather(), b(Shape(), x), b.const(np.array([0])))
        target = b(Concat(0), size, k, b.const(np.array([5])))
        dims = _output(module, b, make(b, x, target)).type.dims
        assert all(have == want for have, want in zip(dims, wanted, strict=True) if want is not None)
        assert isinstance(dims[1], Expr)


def test_a_where_with_known_conditions_has_known_elements() -> None:
    """Exporters write Expand in this way, with -1 for sizes that stay."""
    module, b, (_, k) = _graph(("x", tensor(F32, N, 1)), ("k", tensor(I64, 1)))
    target = b(Concat(0), b.const(np.array([-1])), k)
    ones = b(ConstantOfShape(1, I64), b.const(np.array([2])))
    chosen = b(Where(), b(Equal(), target, b.const(np.array([-1]))), ones, target)
    fact = _output(module, b, chosen)
    assert fact.partial_elements == (1, None) and fact.elements is None
    both = b(And(), b.const(np.array([True])), b(Or(), b.const(np.array([True])), b(Equal(), k, k)))
    assert _output(module, b, both).type == TensorType(BOOL, (1,))


def test_chains_of_known_dims_vanish_and_symbolic_ones_stay_symbolic() -> None:
    for dims, wanted in (((2, 3, 4), (2, 12)), ((N, 3, M), (N, 3 * M))):
        module, b, (x,) = _graph(("x", tensor(F32, *dims)))
        size = b(Squeeze((0,)), b(Slice((0,), (1,), (0,), (1,)), b(Shape(), x)))
        rest = b(Div(), b(Size(), x), size)
        target = b(Concat(0), b(Unsqueeze((0,)), size), b(Unsqueeze((0,)), rest))
        reshaped = b(Reshape(), x, target)
        assert _output(module, b, reshaped).type == tensor(F32, *wanted)
        counted = b(Cast(F64), b(Range(), b.const(np.array(0)), size, b.const(np.array(1))))
        assert _output(module, b, counted).type == tensor(F64, wanted[0])


def test_branches_share_the_elements_that_are_the_same_in_all() -> None:
    module, b, (x, c) = _graph(("x", tensor(F32, N, 3)), ("c", tensor(BOOL)))
    regions = []
    for name, last in (("then", 5), ("else", 7)):
        inner = Builder(module, Graph(name))
        shape = inner(Shape(), inner.graph.add_input(tensor(F32, N, 3), "p"))
        inner.graph.set_outputs([inner(Concat(0), shape, inner.const(np.array([last])))], ["s"])
        regions.append(inner.graph)
    sizes = b(If(1), c, x, regions=regions, known=(tensor(I64, 3),))
    fact = _output(module, b, sizes)
    assert fact.partial_elements == (N, 3, None) and fact.elements is None and fact.data is None
