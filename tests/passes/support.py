"""What the tests of passes share: toy ops (an effect, two outputs), an evaluator of modules, a comparison."""

from __future__ import annotations

import dataclasses
import enum
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphwright import ops
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.inference.infer import evaluate
from graphwright.ir.op import Array, Fact, Inference, Op, Trait, op
from graphwright.ir.op.region_op import CallOp
from graphwright.ir.symbols import Expr, atoms, substitute
from graphwright.ir.symbols import evaluate as evaluate_dim
from graphwright.ir.text import parse_module, print_module
from graphwright.ir.types import DType, TensorType
from graphwright.ops.control.case import Case
from graphwright.ops.control.if_ import If
from graphwright.ops.control.loop import Loop
from graphwright.ops.core.bind_size import BindSize

ops.load()


@op("TestPrint")
class TestPrint(Op):
    """Hands its input on and reports it: an effect."""

    __test__ = False
    label: str = ""
    traits = Trait.EFFECT

    def infer(self, at: Inference, x: Fact) -> TensorType:
        return x.type

    def reference(self, x: Array) -> Array:
        return x


@op("TestPair")
class TestPair(Op):
    """Two outputs: the sum and the difference."""

    __test__ = False
    outputs = 2

    def infer(self, at: Inference, x: Fact, y: Fact) -> tuple[TensorType, TensorType]:
        shape = at.broadcast(x.shape, y.shape)
        return TensorType(x.dtype, shape), TensorType(x.dtype, shape)

    def reference(self, x: Array, y: Array) -> tuple[Array, Array]:
        return x + y, x - y


def copied(module: Module) -> Module:
    """An independent copy, by way of its text."""
    return parse_module(print_module(module))


Reports = list[tuple[str, Array]]


@dataclasses.dataclass
class Evaluator:
    """Runs graphs on the references of their ops; ``reports`` are what the effects left, in order."""

    module: Module
    sizes: dict[str, int]
    reports: Reports = dataclasses.field(default_factory=list)

    def graph(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        known = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph:
            arrays = [None if v is None else known[v] for v in node.inputs]
            known.update(zip(node.outputs, self.node(node, arrays), strict=True))
        return [known[v] for v in graph.outputs]

    def node(self, node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
        if isinstance(node.op, Constant):
            return [self.module.constants[node.op.value]]
        if isinstance(node.op, If | Case):
            index = int(np.asarray(arrays[0]).item())
            if isinstance(node.op, If):
                index = 0 if index else 1
            taken = node.regions[index if 0 <= index < len(node.regions) else -1]
            return self.graph(taken, [a for a in arrays[1:] if a is not None])
        if isinstance(node.op, CallOp):
            return self.region(node.regions[0], arrays)
        if isinstance(node.op, Loop):
            types = [TensorType(v.type.dtype, self._bound(v.type.shape)) for v in node.outputs]
            loop = self.bound(node.op)
            return loop.repeat(lambda k, given: self.region(node.regions[k], given), arrays, types)
        if isinstance(node.op, BindSize):
            self.sizes.setdefault(node.op.size, int(np.asarray(arrays[0])))
        if isinstance(node.op, TestPrint):
            self.reports.append((node.op.label, np.asarray(arrays[0])))
        with np.errstate(all="ignore"):
            return evaluate(self.bound(node.op), arrays)

    def region(self, graph: Graph, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
        return tuple(self.graph(graph, [a for a in arrays if a is not None]))

    def bound(self, instance: Op) -> Op:
        """``instance`` with sizes in place of symbols."""
        fields = {name: self._bound(value) for name, value in instance.attributes().items()}
        return dataclasses.replace(instance, **fields)  # type: ignore[type-var]

    def _bound(self, attribute: Any) -> Any:
        if isinstance(attribute, tuple):
            return tuple(self._bound(part) for part in attribute)
        return substitute(attribute, self.sizes) if isinstance(attribute, Expr) else attribute


def symbols_of(graph: Graph) -> list[str]:
    names = {a.name for v in graph.inputs for d in v.type.shape or () for a in atoms(d)}
    return sorted(names)


SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -1.0)


def filled(dtype: DType, shape: Sequence[int], rng: np.random.Generator, special: bool = False) -> Array:
    """Numbers small enough that nothing overflows; with ``special``, half of them are zeros, infinities, NaN
    and other extreme numbers.
    """
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(np.bool_)
    if dtype.is_integer:
        return np.asarray(rng.integers(0, 5, shape)).astype(dtype.numpy)
    numbers = np.asarray(rng.normal(size=shape))
    if special:
        numbers = np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, size=shape), numbers)
    return numbers.astype(dtype.numpy)


def feeds(graph: Graph, sizes: Mapping[str, int], seed: str, special: bool) -> list[Array]:
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    shapes = [[evaluate_dim(d, sizes) for d in v.type.dims] for v in graph.inputs]
    return [filled(v.type.dtype, shape, rng, special) for v, shape in zip(graph.inputs, shapes, strict=True)]


class Closeness(enum.Enum):
    BITS = "bit for bit, but any NaN is NaN"
    EACH = "each finite number within a relative tolerance, special ones exactly"
    LARGEST = "within a tolerance of the largest number"


def assert_same_meaning(
    before: Module,
    after: Module,
    *,
    sizes: Sequence[int] = (4, 6),
    rtol: float = 1e-5,
    closeness: Closeness = Closeness.LARGEST,
    special: bool = False,
) -> None:
    """The entries of both give the same outputs and effects on random inputs."""
    for name, graph in before.graphs.items():
        names = symbols_of(graph)
        bound = {symbol: sizes[k % len(sizes)] for k, symbol in enumerate(names)}
        arrays = feeds(graph, bound, name, special)
        want, got = Evaluator(before, bound), Evaluator(after, bound)
        expected, actual = want.graph(graph, arrays), got.graph(after.graphs[name], arrays)
        assert graph.output_names == after.graphs[name].output_names
        assert [label for label, _ in want.reports] == [label for label, _ in got.reports]
        pairs = [*zip(expected, actual, strict=True)]
        pairs += [(w, g) for (_, w), (_, g) in zip(want.reports, got.reports, strict=True)]
        for e, a in pairs:
            assert_same_array(e, a, rtol, closeness)


def assert_same_array(expected: Array, actual: Array, rtol: float, closeness: Closeness) -> None:
    if isinstance(expected, list):
        for e, a in zip(expected, actual, strict=True):
            assert_same_array(e, a, rtol, closeness)
        return
    assert expected.dtype == actual.dtype
    assert expected.shape == actual.shape
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    if closeness is Closeness.LARGEST:
        size = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * size, equal_nan=True)
        return
    exact = closeness is Closeness.BITS
    np.testing.assert_allclose(actual, expected, rtol=0 if exact else rtol, atol=0, equal_nan=True)
    kept = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[kept]), np.signbit(expected[kept]))


def op_names(module: Module) -> list[str]:
    """Names of all nodes' ops in order, constants left out."""
    return [node.op.name for node in module.walk() if not isinstance(node.op, Constant)]
