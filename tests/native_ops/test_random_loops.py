"""Random loops: bodies of random expressions, early exits, nested loops, stacked rows; compared with NumPy on
any number of threads, with poisoned memory and a checked plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.loops import body, const, info, model, node

from .loops import native, results

Array = np.ndarray[Any, Any]
Run = Callable[[dict[str, Array]], None]

BINARY: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Max": np.maximum,
    "Min": np.minimum,
}
UNARY: dict[str, Callable[..., Any]] = {"Neg": np.negative, "Abs": np.abs, "Identity": lambda x: x}


@dataclass
class Body:
    """Nodes, and what they do to named arrays."""

    nodes: list[Any] = field(default_factory=list)
    steps: list[Run] = field(default_factory=list)

    def add(self, op: str, inputs: Sequence[str], output: str) -> None:
        meaning = BINARY.get(op) or UNARY[op]
        self.nodes.append(node(op, " ".join(inputs), output))

        def step(known: dict[str, Array]) -> None:
            known[output] = meaning(*(known[name] for name in inputs))

        self.steps.append(step)

    def run(self, known: dict[str, Array]) -> None:
        for step in self.steps:
            step(known)


@dataclass
class RandomLoop:
    """A Loop of at most ``trips`` iterations, whose carried values begin as ``starts``. All names begin with
    ``prefix``.

    With ``early``, it stops where the number of the iteration times 3 exceeds the first element of the first
    carried value.
    """

    prefix: str
    trips: int
    early: bool
    starts: list[str]
    rows: int
    body: Body

    @property
    def carried(self) -> list[str]:
        """The carried values inside the body."""
        return [f"{self.prefix}h{k}" for k in range(len(self.starts))]

    @property
    def last(self) -> list[str]:
        """The results that are last values of carried ones."""
        return [f"{self.prefix}y{k}" for k in range(len(self.starts))]

    @property
    def scanned(self) -> list[str]:
        """The results that have a row of each iteration."""
        return [f"{self.prefix}r{k}" for k in range(self.rows)]

    @property
    def made(self) -> list[str]:
        """The outputs of the body after the condition: next values of carried ones, then rows."""
        return [f"{self.prefix}o{k}" for k in range(len(self.starts) + self.rows)]

    def node(self) -> Any:
        inputs = [
            info(f"{self.prefix}i", (), np.int64),
            info(f"{self.prefix}on", (), bool),
            *(info(name, None) for name in self.carried),
        ]
        inner = body([*self.body.nodes, *self._condition()], inputs, [f"{self.prefix}go", *self.made])
        starts, results = " ".join(self.starts), " ".join([*self.last, *self.scanned])
        return node("Loop", f"T{self.trips} yes {starts}", results, body=inner)

    def _condition(self) -> list[Any]:
        p = self.prefix
        if not self.early:
            return [node("Identity", f"{p}on", f"{p}go")]
        return [
            node("Slice", f"{self.carried[0]} zero1 one1", f"{p}first"),
            node("ReduceSum", f"{p}first", f"{p}sum", keepdims=0),
            node("Cast", f"{p}i", f"{p}f", to=1),
            node("Mul", f"{p}f three", f"{p}bound"),
            node("LessOrEqual", f"{p}bound {p}sum", f"{p}go"),
        ]

    def run(self, known: dict[str, Array]) -> None:
        """Adds the results to ``known``."""
        inside = dict(known)
        inside |= {name: known[start] for name, start in zip(self.carried, self.starts, strict=True)}
        rows: dict[str, list[Array]] = {name: [] for name in self.scanned}
        for number in range(self.trips):
            goes_on = not self.early or bool(np.float32(number * 3) <= inside[self.carried[0]][:1].sum())
            self.body.run(inside)
            made = [inside[name] for name in self.made]
            inside |= dict(zip(self.carried, made, strict=False))
            for name, row in zip(self.scanned, made[len(self.starts) :], strict=True):
                rows[name].append(row)
            if not goes_on:
                break
        known |= {name: inside[inner] for name, inner in zip(self.last, self.carried, strict=True)}
        shape = known[self.starts[0]].shape
        known |= {name: np.array(each, np.float32).reshape(len(each), *shape) for name, each in rows.items()}


@st.composite
def loops(draw: st.DrawFn, depth: int, prefix: str, outer: Sequence[str]) -> RandomLoop:
    """A loop that reads ``outer`` values, with up to ``depth`` levels of loops inside."""
    carried, rows = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    trips = draw(st.sampled_from((0, 1, 2, 3, 7)))
    early = rows == 0 and draw(st.booleans())
    made, values = Body(), [*(f"{prefix}h{k}" for k in range(carried)), *outer]
    for k in range(draw(st.integers(1, 5))):
        target = f"{prefix}v{k}"
        if depth and draw(st.integers(0, 3)) == 0:
            inner = draw(loops(depth - 1, f"{target}_", values))
            made.nodes.append(inner.node())
            made.steps.append(inner.run)
            values += inner.last
            continue
        op = draw(st.sampled_from(sorted(BINARY | UNARY)))
        count = 1 + (op in BINARY)
        made.add(op, draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)), target)
        values.append(target)
    outputs = [draw(st.sampled_from(values)) for _ in range(carried + rows)]
    starts = [draw(st.sampled_from(list(outer))) for _ in range(carried)]
    for k, source in enumerate(outputs):  # a body's outputs have names of their own
        made.add("Identity", [source], f"{prefix}o{k}")
    return RandomLoop(prefix, trips, early, starts, rows, made)


SIZES = (0, 1, 7, 20011)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(loops(1, "", ["x", "z"]), st.sampled_from(("n", 64)))
def test_random_loops_equal_numpy(loop: RandomLoop, width: int | str) -> None:
    names = [*loop.last, *loop.scanned]
    constants = [const(f"T{trips}", trips, np.int64) for trips in (0, 1, 2, 3, 7)]
    constants += [const("yes", value=True, dtype=bool), const("three", 3.0)]
    constants += [const("zero1", [0], np.int64), const("one1", [1], np.int64)]
    compiled = native(model([loop.node()], [info("x", (width,)), info("z", (width,))], names, constants))
    for size in SIZES if width == "n" else (int(width),):
        rng = np.random.default_rng(size)
        feeds = {name: np.round(rng.normal(size=size) * 4).astype(np.float32) for name in ("x", "z")}
        known: dict[str, Array] = dict(feeds)
        loop.run(known)
        for name, got in zip(names, results(compiled, feeds), strict=True):
            np.testing.assert_array_equal(got, known[name], name)
