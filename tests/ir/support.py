"""Toy ops and random modules for the tests of the graph IR; no built-in op is needed."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Graph, Module, Node, Role, Signature, Value
from graphwright.ir.op import Array, ConstRef, Fact, Inference, InferError, Op, Trait, op
from graphwright.ir.op.region_op import RegionOp
from graphwright.ir.symbols import Dim, Range, floordiv, maximum, minimum, mod, symbol
from graphwright.ir.types import DTYPES, F32, Layout, TensorType


class Mode(enum.StrEnum):
    LINEAR = "linear"
    CUBIC = "cubic"


@dataclass(frozen=True)
class Window:
    """An attribute with fields of its own."""

    size: int
    mode: Mode = Mode.LINEAR


@op("ToyAdd")
class ToyAdd(Op):
    traits = Trait.ELEMENTWISE | Trait.COMMUTATIVE

    def infer(self, at: Inference, x: Fact, y: Fact) -> TensorType:
        return TensorType(x.dtype, at.broadcast(x.shape, y.shape))

    def reference(self, x: Array, y: Array) -> Array:
        return np.asarray(x + y)


@op("ToySub")
class ToySub(Op):
    traits = Trait.ELEMENTWISE

    def infer(self, at: Inference, x: Fact, y: Fact) -> TensorType:
        return TensorType(x.dtype, at.broadcast(x.shape, y.shape))


@op("ToyScale")
class ToyScale(Op):
    """An optional bias, and an attribute that verify refuses below 0."""

    factor: float = 1.0
    optional_inputs = frozenset({1})

    def verify(self) -> None:
        if self.factor < 0:
            raise InferError(f"factor {self.factor} is negative")

    def infer(self, at: Inference, x: Fact, bias: Fact | None = None) -> TensorType:
        return x.type


@op("ToyBag")
class ToyBag(Op):
    """Attributes of every kind that a text can hold."""

    a: Any = 0
    b: Any = ()
    c: Any = None
    d: Any = 1.5
    e: Mode = Mode.LINEAR
    window: Window | None = None
    layout: Layout | None = None

    def infer(self, at: Inference, *xs: Fact | None) -> TensorType:
        return TensorType(F32, ())


@op("ToyBranch")
class ToyBranch(RegionOp):
    """Two regions on the same operands, with the types of region 0's outputs."""

    count: int = 1

    def output_count(self) -> int:
        return self.count

    def region_inputs(self, region: int, inputs: Sequence[Fact | None]) -> Sequence[Fact | None]:
        return inputs

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        return tuple(outputs[0])


@op("ToyEffect")
class ToyEffect(Op):
    """An op with an effect and without output."""

    outputs = 0
    traits = Trait.EFFECT

    def infer(self, at: Inference, *xs: Fact) -> tuple[TensorType, ...]:
        return ()


NAMES = st.one_of(
    st.sampled_from(["", "x", "y", "0", "_", "a b", "conv1/out:0", 'q"uote', "back\\slash", "é", "return"]),
    st.text(max_size=8),
)
"""Names of values, nodes and graphs: plain, empty, repeated, hostile."""
PLAIN_SYMBOLS = ("N", "M", "f32", "inf", "True", "at", "dim", "floordiv")


@cache
def dims() -> st.SearchStrategy[Dim]:
    """Sizes and expressions over a few symbols, some called like words of the grammar."""
    leaves = st.one_of(st.integers(0, 9), st.sampled_from(PLAIN_SYMBOLS).map(symbol))

    def grow(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        join: list[Callable[[Dim, Dim], Dim]] = [
            lambda a, b: a + b,
            lambda a, b: a - b,
            lambda a, b: a * b,
            minimum,
            maximum,
        ]
        pairs = st.tuples(st.sampled_from(join), inner, inner).map(lambda t: t[0](t[1], t[2]))
        quotients = st.tuples(st.sampled_from([floordiv, mod]), inner, st.integers(1, 7))
        return st.one_of(pairs, quotients.map(lambda t: t[0](t[1], t[2])))

    return st.recursive(leaves, grow, max_leaves=5)


@cache
def types() -> st.SearchStrategy[TensorType]:
    shapes = st.one_of(st.none(), st.lists(dims(), max_size=3).map(tuple))
    return st.builds(TensorType, st.sampled_from(list(DTYPES.values())), shapes)


@cache
def attributes(refs: tuple[ConstRef, ...]) -> st.SearchStrategy[Any]:
    plain = [
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), NAMES, dims(), types(),
        st.sampled_from(list(DTYPES.values())), st.sampled_from(list(Mode)),
        st.builds(Window, st.integers(0, 9)),
    ]  # fmt: skip
    if refs:
        plain.append(st.sampled_from(refs))
    return st.recursive(st.one_of(plain), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Small arrays of every dtype, any bits."""
    dtype = draw(st.sampled_from(list(DTYPES.values())))
    shape = draw(st.sampled_from([(), (0,), (1,), (3,), (2, 3), (20,), (4, 0)]))
    count = int(np.prod(shape))
    if dtype.kind == "string":
        made = np.empty(count, object)
        made[:] = draw(st.lists(NAMES, min_size=count, max_size=count))
        return made.reshape(shape)
    if dtype.kind == "bool" or dtype.bits < 8:
        values = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
        return np.array(values, np.float32).astype(dtype.numpy).reshape(shape)
    data = draw(st.binary(min_size=count * dtype.bytes, max_size=count * dtype.bytes))
    if draw(st.booleans()) and count:
        data = data[: dtype.bytes] * count
    return np.frombuffer(data, dtype.numpy).reshape(shape)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Modules whose structure is right and whose types, names and attributes are anything."""
    module = Module()
    module.metadata.update(draw(st.dictionaries(NAMES, NAMES, max_size=2)))
    for name in draw(st.lists(st.sampled_from(PLAIN_SYMBOLS), unique=True, max_size=3)):
        low = draw(st.integers(0, 5))
        module.symbols.ranges[name] = Range(low, draw(st.one_of(st.none(), st.integers(low, 99))))
        if draw(st.booleans()):
            module.symbols.multiples[name] = draw(st.integers(1, 8))
    for _ in range(draw(st.integers(0, 2))):
        module.symbols.demand(draw(st.sampled_from(["==", "<="])), draw(dims()), draw(dims()), draw(NAMES))
    refs = [module.constants.add(a) for a in draw(st.lists(arrays(), max_size=3))]
    for name in draw(st.lists(NAMES, min_size=1, max_size=2, unique=True)):
        graph = module.add_graph(draw(graphs(name, refs, module, depth=2)))
        if draw(st.booleans()):
            roles = tuple(draw(st.sampled_from(list(Role))) for _ in graph.inputs)
            aliases = ((0, 0),) if graph.inputs and graph.outputs else ()
            module.signatures[name] = Signature(roles, aliases)
    return module


@st.composite
def graphs(draw: st.DrawFn, name: str, refs: Sequence[ConstRef], module: Module, depth: int) -> Graph:
    graph = Graph(name)
    values: list[Value] = [
        graph.add_input(draw(types()), draw(NAMES)) for _ in range(draw(st.integers(0, 3)))
    ]
    for _ in range(draw(st.integers(0, 4))):
        node = draw(nodes(values, refs, module, depth))
        graph.append(node)
        values += node.outputs
    for value in values:
        value.name = draw(NAMES)
        if draw(st.booleans()):
            value.layout = draw(
                st.sampled_from([Layout((0, 1)), Layout((1, 0), ((1, 16),), zero_padded=True)])
            )
            value.device = draw(NAMES)
    outputs = draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
    graph.set_outputs(outputs, [draw(NAMES) for _ in outputs])
    return graph


@st.composite
def nodes(
    draw: st.DrawFn, values: Sequence[Value], refs: Sequence[ConstRef], module: Module, depth: int
) -> Node:
    pick = st.sampled_from([None, *values])
    inputs = draw(st.lists(pick, max_size=3))
    name, sources = draw(NAMES), draw(st.lists(NAMES, max_size=2))
    kind = draw(st.sampled_from(["bag", "branch", "effect", "constant"]))
    if kind == "constant" and refs:
        ref = draw(st.sampled_from(refs))
        type = draw(types())
        return Node(Constant(ref, type), (), [type], (), name, sources)
    if kind == "branch" and depth:
        regions = [draw(graphs(draw(NAMES), refs, module, depth - 1)) for _ in range(draw(st.integers(0, 2)))]
        count = draw(st.integers(0, 2))
        return Node(ToyBranch(count), inputs, [draw(types()) for _ in range(count)], regions, name, sources)
    if kind == "effect":
        return Node(ToyEffect(), inputs, [], (), name, sources)
    values_of = attributes(tuple(refs))
    bag = ToyBag(
        draw(values_of), draw(values_of), draw(values_of), draw(values_of), draw(st.sampled_from(list(Mode)))
    )
    return Node(bag, inputs, [draw(types())], (), name, sources)


def builder(module: Module, name: str = "main", **inputs: TensorType) -> tuple[Builder, list[Value]]:
    graph = module.add_graph(Graph(name))
    values = [graph.add_input(type, key) for key, type in inputs.items()]
    return Builder(module, graph), values


BF16_ARRAY = np.array([1.5, -0.0], ml_dtypes.bfloat16)
