"""Random modules that mean something: regions, symbols, state, effects, shape arithmetic, special numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module, Role, Signature, Value
from graphwright.ir.symbols import Range, symbol
from graphwright.ir.types import BOOL, F32, F64, TensorType, tensor
from graphwright.ops.control.if_ import If
from graphwright.ops.control.loop import ITERATION, Loop
from graphwright.ops.core.binary import Add, Max, Min, Mul, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.flatten import Flatten
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Abs, Neg, Relu, Sqrt
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.batch_normalization import BatchNormalization
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.softmax import Softmax

from .support import TestPair, TestPrint

NUMBERS = (0.0, -0.0, 1.0, 2.0, 0.5, -4.0, 0.3)
UNARY = (Relu(), Neg(), Abs(), Exp(), Sqrt(), Identity(), Clip(-1.0, 5.0), Clip(0.0, 6.0), Softmax(axis=-1))
BINARY = (Add(), Sub(), Mul(), Div(), Max(), Min())
END = 2**63 - 1


class Grower:
    """Appends random nodes to a graph; ``values`` are the f32 values of a known rank so far."""

    def __init__(self, draw: st.DrawFn, b: Builder, values: list[Value], depth: int) -> None:
        self.draw = draw
        self.b = b
        self.values = values
        self.depth = depth
        self.steps: list[Callable[[], None]] = [
            self.unary, self.binary, self.with_number, self.with_number, self.transpose, self.there_and_back,
            self.view, self.shape_arithmetic, self.casts, self.choice, self.joined, self.reduced, self.branch,
            self.loop, self.effect, self.pair, self.again, self.product,
        ]  # fmt: skip

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.draw(st.sampled_from(self.steps))()

    def pick(self, rank: int | None = None) -> Value:
        fitting = [v for v in self.values if rank is None or v.type.rank == rank]
        return self.draw(st.sampled_from(fitting or self.values))

    def add(self, value: Value) -> None:
        self.values.append(value)

    def number(self) -> Value:
        return self.b.const(self.draw(st.sampled_from(NUMBERS)), F32)

    def unary(self) -> None:
        op, x = self.draw(st.sampled_from(UNARY)), self.pick()
        if x.type.rank or not isinstance(op, Softmax):
            self.add(self.b(op, x))

    def binary(self) -> None:
        x = self.pick()
        y = self.draw(st.sampled_from([v for v in self.values if v.type == x.type]))
        self.add(self.b(self.draw(st.sampled_from(BINARY)), x, y))

    def with_number(self) -> None:
        op = self.draw(st.sampled_from((*BINARY, Pow())))
        number = (
            self.number()
            if not isinstance(op, Pow)
            else self.b.const(self.draw(st.sampled_from((1.0, 2.0, 0.5))), F32)
        )
        operands = (self.pick(), number)
        if not isinstance(op, Pow) and self.draw(st.booleans()):
            operands = operands[::-1]
        self.add(self.b(op, *operands))

    def transpose(self) -> None:
        x = self.pick()
        self.add(self.b(Transpose(self.permutation(x)), x))

    def permutation(self, x: Value) -> tuple[int, ...]:
        return tuple(self.draw(st.permutations(range(x.type.rank or 0))))

    def there_and_back(self) -> None:
        """A transpose, elementwise nodes, the transpose back."""
        x = self.pick()
        perm = self.permutation(x)
        y = self.b(Transpose(perm), x)
        y = self.b(Mul(), self.b(Relu(), y), self.number())
        if self.draw(st.booleans()):
            y = self.b(Add(), y, self.b(Transpose(perm), x))
        self.add(self.b(Transpose(tuple(np.argsort(perm).tolist())), y))

    def view(self) -> None:
        x = self.pick()
        self.add(self.b(Unsqueeze((0,)), x))
        self.add(self.b(Squeeze((0,)), self.values[-1]))
        if x.type.rank:
            self.add(self.b(Flatten(1), x))

    def shape_arithmetic(self) -> None:
        x = self.pick(2)
        if x.type.rank != 2:
            return
        size = self.b(Gather(), self.b(Shape(), x), self.b.const(np.array([0])))
        target = self.b(Concat(0), size, self.b.const(np.array([-1])))
        self.add(self.b(Reshape(), self.b(Unsqueeze((1,)), x), target))

    def casts(self) -> None:
        self.add(self.b(Cast(F32), self.b(Cast(F64), self.pick())))

    def choice(self) -> None:
        x = self.pick()
        condition = self.b.const(np.array(self.draw(st.booleans())))
        self.add(self.b(Where(), condition, x, self.b(Neg(), x)))

    def joined(self) -> None:
        x = self.pick()
        if x.type.rank:
            self.add(self.b(Concat(0), x))
            whole, reverse = Slice((0,), (END,), (0,), (1,)), Slice((-1,), (-END,), (0,), (-1,))
            self.add(self.b(self.draw(st.sampled_from((whole, reverse))), x))

    def reduced(self) -> None:
        x = self.pick()
        if x.type.rank:
            self.add(self.b(ReduceMean((0,), keepdims=True), self.b(Abs(), x)))

    def branch(self) -> None:
        if not self.depth:
            return
        operands = [self.pick() for _ in range(self.draw(st.integers(1, 3)))]
        conditions = [v for v in self.b.graph.inputs if v.type.dtype == BOOL]
        condition = self.draw(
            st.sampled_from([*conditions, self.b.const(np.array(self.draw(st.booleans())))])
        )
        regions = [self.region(f"branch{k}", operands) for k in range(2)]
        if regions[0].outputs[0].type == regions[1].outputs[0].type:
            self.add(self.b(If(1), condition, *operands, regions=regions))

    def region(self, name: str, operands: list[Value]) -> Graph:
        graph = Graph(name)
        inner = [graph.add_input(v.type) for v in operands]
        grower = Grower(self.draw, Builder(self.b.module, graph), list(inner), self.depth - 1)
        grower.grow(self.draw(st.integers(0, 3)))
        alike = [v for v in grower.values if v.type == operands[0].type]
        graph.set_outputs([self.draw(st.sampled_from(alike))])
        return graph

    def loop(self) -> None:
        """Carries one or two values, scans one or none; some run no time, some until a constant says no."""
        if not self.depth:
            return
        starts = [self.pick() for _ in range(self.draw(st.integers(1, 2)))]
        shared = [self.pick() for _ in range(self.draw(st.integers(0, 2)))]
        body = Graph("body")
        body.add_input(ITERATION)
        inner = [body.add_input(value.type) for value in (*starts, *shared)]
        build = Builder(self.b.module, body)
        grower = Grower(self.draw, build, inner, self.depth - 1)
        grower.grow(self.draw(st.integers(0, 4)))
        results = [
            self.draw(st.sampled_from([v for v in grower.values if v.type == start.type])) for start in starts
        ]
        rows = [v for v in grower.values if v.type == starts[0].type][: self.draw(st.integers(0, 1))]
        conditional = self.draw(st.booleans())
        conditions = [build.const(np.array(self.draw(st.booleans())))] if conditional else []
        body.set_outputs([*conditions, *results, *rows])
        steering = [self.b.const(np.array(self.draw(st.booleans())))] if conditional else []
        loop = Loop(
            len(starts),
            len(rows),
            counted=False,
            conditional=conditional,
            trips=self.draw(st.sampled_from((0, 1, 2, 4))),
        )
        made = self.b.node(loop, *steering, *starts, *shared, regions=[body])
        for value in made.outputs[: len(starts)]:
            self.add(value)

    def effect(self) -> None:
        self.add(self.b(TestPrint(f"print{self.draw(st.integers(0, 2))}"), self.pick()))

    def pair(self) -> None:
        x = self.pick()
        for value in self.b(TestPair(), x, x):
            self.add(value)

    def again(self) -> None:
        """Adds a copy of an earlier node."""
        nodes = [n for n in self.b.graph if n.outputs and n.outputs[0] in self.values and not n.regions]
        if nodes:
            node = self.draw(st.sampled_from(nodes))
            self.add(self.b.node(node.op, *node.inputs).outputs[0])

    def product(self) -> None:
        """A convolution whose channels are normalized, scaled or shifted."""
        x = self.pick(4)
        if x.type.rank != 4 or not isinstance(x.type.dims[1], int):
            return
        channels = x.type.dims[1]
        rng = np.random.default_rng(self.draw(st.integers(0, 3)))
        y = self.b(Conv(), x, self.b.const(rng.normal(size=(2, channels, 1, 1)), F32))
        if self.draw(st.booleans()):
            vectors = [self.b.const(rng.uniform(0.5, 2, 2), F32) for _ in range(4)]
            y = self.b(BatchNormalization(), y, *vectors)
        if self.draw(st.booleans()):
            op = self.draw(st.sampled_from((Add(), Mul(), Sub(), Div())))
            y = self.b(op, y, self.b.const(rng.uniform(0.5, 2, (2, 1, 1)), F32))
        self.add(y)


@st.composite
def modules(draw: st.DrawFn, products: bool = True) -> Module:
    """The entry ``main`` with data, a state that an output replaces, a condition; up to 12 random steps."""
    module = Module()
    n = symbol("N")
    module.symbols.ranges["N"] = Range(1, 8)
    graph = module.add_graph(Graph("main"))
    types: list[tuple[str, TensorType]] = [
        ("c", tensor(BOOL)),
        ("x", tensor(F32, n, 4)),
        ("s", tensor(F32, n, 4)),
    ]
    if products:
        types.append(("image", tensor(F32, n, 2, 3, 1)))
    inputs = [graph.add_input(type, name) for name, type in types]
    grower = Grower(draw, Builder(module, graph), inputs[1:], depth=2)
    grower.grow(draw(st.integers(1, 12)))
    state = draw(st.sampled_from([v for v in grower.values if v.type == inputs[2].type]))
    outputs = [state, *draw(st.lists(st.sampled_from(grower.values), min_size=1, max_size=3))]
    graph.set_outputs(outputs, [f"out{k}" for k in range(len(outputs))])
    for node in module.walk():
        if draw(st.booleans()):
            node.sources = (f"source{draw(st.integers(0, 9))}",)
    roles = (Role.DATA, Role.DATA, Role.STATE, *[Role.DATA] * products)
    module.signatures["main"] = Signature(roles, ((0, 2),))
    return module
