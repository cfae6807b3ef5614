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


@st.composite
def loops(draw: st.DrawFn, depth: int, prefix: str, outer: Sequence[str]) -> tuple[Any, Run, int, int]:
    """A Loop node that starts from ``outer`` values, what it does, and how many values and rows it gives.

    Results are called ``PREFIXy0`` and so on, rows ``PREFIXr0``. It stops early where the number of the run
    times 3 exceeds the first carried value's first element, if it has a condition and no rows.
    """
    carried, rows = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    trips = draw(st.sampled_from((0, 1, 2, 3, 7)))
    early = rows == 0 and draw(st.booleans())
    names = [f"{prefix}h{k}" for k in range(carried)]
    made, values = Body(), [*names, *outer]
    for k in range(draw(st.integers(1, 5))):
        target = f"{prefix}v{k}"
        if depth and draw(st.integers(0, 3)) == 0:
            inner, run, count, _ = draw(loops(depth - 1, f"{target}_", values))
            made.nodes.append(inner)
            made.steps.append(run)
            values += [f"{target}_y{j}" for j in range(count)]
            continue
        op = draw(st.sampled_from(sorted(BINARY | UNARY)))
        inputs = draw(
            st.lists(st.sampled_from(values), min_size=1 + (op in BINARY), max_size=1 + (op in BINARY))
        )
        made.add(op, inputs, target)
        values.append(target)
    given = [draw(st.sampled_from(values)) for _ in range(carried)]
    kept = [draw(st.sampled_from(values)) for _ in range(rows)]
    starts = [draw(st.sampled_from(list(outer))) for _ in range(carried)]
    for k, source in enumerate([*given, *kept]):  # a body's outputs have names of their own
        made.add("Identity", [source], f"{prefix}o{k}")
    if early:
        made.nodes += [
            node("Slice", f"{names[0]} zero1 one1", f"{prefix}first"),
            node("ReduceSum", f"{prefix}first", f"{prefix}sum", keepdims=0),
            node("Cast", f"{prefix}i", f"{prefix}f", to=1),
            node("Mul", f"{prefix}f three", f"{prefix}bound"),
            node("LessOrEqual", f"{prefix}bound {prefix}sum", f"{prefix}go"),
        ]
    else:
        made.nodes.append(node("Identity", f"{prefix}on", f"{prefix}go"))
    inputs = [
        info(f"{prefix}i", (), np.int64),
        info(f"{prefix}on", (), bool),
        *(info(n, None) for n in names),
    ]
    inner = body(made.nodes, inputs, [f"{prefix}go", *(f"{prefix}o{k}" for k in range(carried + rows))])
    outputs = [*(f"{prefix}y{k}" for k in range(carried)), *(f"{prefix}r{k}" for k in range(rows))]
    loop = node("Loop", f"T{trips} yes {' '.join(starts)}", " ".join(outputs), body=inner)

    def run(known: dict[str, Array]) -> None:
        inside = dict(known)
        inside |= {name: known[start] for name, start in zip(names, starts, strict=True)}
        rows_of: list[list[Array]] = [[] for _ in range(rows)]
        for number in range(trips):
            goes_on = not early or bool(np.float32(number * 3) <= inside[names[0]][:1].sum())
            made.run(inside)
            for k in range(rows):
                rows_of[k].append(inside[f"{prefix}o{carried + k}"])
            inside |= {name: inside[f"{prefix}o{k}"] for k, name in enumerate(names)}
            if not goes_on:
                break
        for k, name in enumerate(names):
            known[f"{prefix}y{k}"] = inside[name]
        shape = known[starts[0]].shape
        for k in range(rows):
            known[f"{prefix}r{k}"] = np.array(rows_of[k], np.float32).reshape(len(rows_of[k]), *shape)

    return loop, run, carried, rows


SIZES = (0, 1, 7, 20011)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(loops(1, "", ["x", "z"]), st.sampled_from(("n", 64)))
def test_random_loops_equal_numpy(loop: tuple[Any, Run, int, int], width: int | str) -> None:
    made, run, carried, rows = loop
    names = [*(f"y{k}" for k in range(carried)), *(f"r{k}" for k in range(rows))]
    constants = [const(f"T{trips}", trips, np.int64) for trips in (0, 1, 2, 3, 7)]
    constants += [const("yes", True, bool), const("three", 3.0)]
    constants += [const("zero1", [0], np.int64), const("one1", [1], np.int64)]
    compiled = native(model([made], [info("x", (width,)), info("z", (width,))], names, constants))
    for size in SIZES if width == "n" else (int(width),):
        rng = np.random.default_rng(size)
        feeds = {name: np.round(rng.normal(size=size) * 4).astype(np.float32) for name in ("x", "z")}
        known: dict[str, Array] = dict(feeds)
        run(known)
        for name, got in zip(names, results(compiled, feeds), strict=True):
            np.testing.assert_array_equal(got, known[name], name)
