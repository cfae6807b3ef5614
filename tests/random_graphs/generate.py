"""Random modules with feeds, and for each output how far a right answer may be from NumPy's.

Each value carries a bound of its elements and of the error that roundings in any order may have left; steps
that would let either grow too large, or that would turn an error into a jump (comparisons, floor), are left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from graphwright import ops
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.op import Array
from graphwright.ir.symbols import Dim, Range, product, symbol
from graphwright.ir.symbols import evaluate as evaluate_dim
from graphwright.ir.types import BOOL, F32, TensorType
from graphwright.ops.control.if_ import If

from .elementwise import Elementwise
from .moves import Moves
from .sums import Sums
from .values import DTYPES, LARGEST, Known, filled

ops.load()

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
N, M = symbol("N"), symbol("M")


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


class Grower(Elementwise, Moves, Sums):
    """Appends random nodes to a graph."""

    def __init__(self, random: Random, b: Builder, depth: int) -> None:
        super().__init__(random, b, depth)
        self.steps: list[Callable[[Value], None]] = [
            self.keep_exact, self.keep_exact, self.smooth, self.smooth, self.smooth, self.positive,
            self.binary, self.binary, self.binary, self.compared, self.chosen, self.logical, self.cast,
            self.transpose, self.view, self.view, self.merged, self.merged, self.expand, self.slice,
            self.split, self.concat, self.pad, self.gather, self.reduced, self.reduced, self.softmax,
            self.softmax, self.normalized, self.normalized, self.matmul, self.conv, self.arg, self.branch,
        ]  # fmt: skip

    def grow(self, count: int) -> None:
        for _ in range(count):
            x = self.pick()
            if x is not None:
                self.random.choice(self.steps)(x)

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
