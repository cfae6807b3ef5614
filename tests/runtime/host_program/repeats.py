"""Random loops that a single program cannot run: a data-dependent number of rows, carried values that grow
and shrink.

Elements are small whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st

from tests.ops.loops import GOES_ON, NUMBER, body, const, info, model, node

Array = np.ndarray[Any, Any]
Step = Callable[[Array, Array, Array], Array]
NO_LIMIT = 2**63 - 1
WIDTH = 3

CONSTANTS = [
    const("low", -64.0),
    const("high", 64.0),
    const("zero", 0.0),
    const("flat", [1, WIDTH], np.int64),
    const("rows", [0], np.int64),
    const("none", [0], np.int64),
    const("one", [1], np.int64),
    const("last3", [-3], np.int64),
    const("end", [NO_LIMIT], np.int64),
    const("twice", 2, np.int64),
    const("first", 0, np.int64),
]


def _if() -> onnx.NodeProto:
    """Adds x to what has a positive sum, and takes it off elsewhere."""
    return node(
        "If",
        "positive",
        "NEW",
        then_branch=body([node("Add", "OLD x", "more")], [], ["more"]),
        else_branch=body([node("Sub", "OLD x", "less")], [], ["less"]),
    )


def _inner_loop() -> onnx.NodeProto:
    """A loop that adds x twice."""
    states = [info("j", (), np.int64), info("on2", (), bool), info("k", None)]
    inner = body([node("Identity", "on2", "go2"), node("Add", "k x", "k2")], states, ["go2", "k2"])
    return node("Loop", "twice _ OLD", "NEW", body=inner)


STEPS: dict[str, tuple[Callable[[], Sequence[onnx.NodeProto]], Step]] = {
    "add": (lambda: [node("Add", "OLD x", "NEW")], lambda v, c, x: v + x),
    "negate": (lambda: [node("Neg", "OLD", "NEW")], lambda v, c, x: -v),
    "relu": (lambda: [node("Relu", "OLD", "NEW")], lambda v, c, x: np.maximum(v, 0)),
    "sum of the cache": (
        lambda: [node("ReduceSum", "c rows", "sums", keepdims=0), node("Add", "OLD sums", "NEW")],
        lambda v, c, x: v + c.sum(0),
    ),
    "branch": (
        lambda: [
            node("ReduceSum", "OLD", "sum", keepdims=0),
            node("Greater", "sum zero", "positive"),
            _if(),
        ],
        lambda v, c, x: v + x if v.sum() > 0 else v - x,
    ),
    "loop": (lambda: [_inner_loop()], lambda v, c, x: v + x + x),
    "positive elements": (
        lambda: [
            node("Greater", "OLD zero", "above"),
            node("Compress", "OLD above", "kept"),
            node("ReduceSum", "kept", "total", keepdims=0),
            node("Add", "OLD total", "NEW"),
        ],
        lambda v, c, x: v + v[v > 0].sum(),
    ),
    "positive elements for each row of the cache": (
        lambda: [
            node("Greater", "OLD zero", "above"),
            node("Compress", "OLD above", "kept"),
            node("ReduceSum", "kept", "sums"),
            node("Shape", "c", "count", start=0, end=1),
            node("Expand", "sums count", "repeated"),
            node("ReduceSum", "repeated", "total", keepdims=0),
            node("Add", "OLD total", "NEW"),
        ],
        lambda v, c, x: v + len(c) * v[v > 0].sum(),
    ),
}
"""Nodes that make a vector NEW of OLD, the cache ``c`` and ``x``; and what they mean."""

CACHES: dict[str, tuple[Callable[[], Sequence[onnx.NodeProto]], Callable[[Array, Array], Array]]] = {
    "same": (lambda: [node("Identity", "c", "c2")], lambda c, v: c),
    "grows": (
        lambda: [node("Reshape", "v2 flat", "row"), node("Concat", "c row", "c2", axis=0)],
        lambda c, v: np.concatenate([c, v[None]]),
    ),
    "doubles": (lambda: [node("Concat", "c c", "c2", axis=0)], lambda c, v: np.concatenate([c, c])),
    "shrinks": (lambda: [node("Slice", "c one end rows", "c2")], lambda c, v: c[1:]),
    "slides": (
        lambda: [
            node("Reshape", "v2 flat", "row"),
            node("Concat", "c row", "longer", axis=0),
            node("Slice", "longer last3 end rows", "c2"),
        ],
        lambda c, v: np.concatenate([c, v[None]])[-3:],
    ),
    "positive rows": (
        lambda: [
            node("Gather", "c first", "column", axis=1),
            node("Greater", "column zero", "above_zero"),
            node("Compress", "c above_zero", "chosen", axis=0),
            node("Concat", "chosen chosen", "c2", axis=0),
        ],
        lambda c, v: np.concatenate([c[c[:, 0] > 0]] * 2),
    ),
    "rows below the limit": (
        lambda: [
            node("Gather", "c first", "column", axis=1),
            node("Less", "column high", "below"),
            node("Compress", "c below", "c2", axis=0),
        ],
        lambda c, v: c[c[:, 0] < 64],
    ),
}
"""Nodes that make the next cache ``c2`` of ``c`` and the new vector ``v2``; and what they mean."""

ROWS: dict[str, tuple[str, Callable[[int, Array, Array], Array]]] = {
    "v2": ("v2", lambda i, v, x: v),
    "i": ("i", lambda i, v, x: np.array(i)),
    "x": ("x", lambda i, v, x: x),
    "zero": ("zero", lambda i, v, x: np.float32(0)),
}


@dataclass(frozen=True)
class Repeat:
    """A loop that carries a vector and a cache: which steps make the next, what is scanned, when it ends."""

    steps: tuple[str, ...]
    cache: str
    rows: tuple[str, ...]
    conditional: bool
    counted: bool

    def proto(self) -> onnx.ModelProto:
        nodes: list[onnx.NodeProto] = []
        for k, name in enumerate(self.steps):
            for each in STEPS[name][0]():
                _rename(each, {"OLD": f"u{k}" if k else "v", "NEW": f"u{k + 1}"}, f"_{k}")
                nodes.append(each)
        nodes.append(node("Clip", f"u{len(self.steps)} low high", "v2"))
        nodes += CACHES[self.cache][0]()
        if self.conditional:
            nodes += [node("ReduceMax", "v2", "greatest", keepdims=0), node("Less", "greatest bound", "go")]
        else:
            nodes.append(node("Identity", "on", "go"))
        nodes += [node("Identity", ROWS[row][0], f"r{k}") for k, row in enumerate(self.rows)]
        states = [info("v", (WIDTH,)), info("c", (None, WIDTH))]
        outputs = ["go", "v2", "c2", *(f"r{k}" for k in range(len(self.rows)))]
        inner = body(nodes, [NUMBER, GOES_ON, *states], outputs)
        rows = [f"ys{k}" for k in range(len(self.rows))]
        steering = f"{'T' if self.counted else '_'} {'start' if self.conditional else '_'}"
        loop = node("Loop", f"{steering} v0 c0", f"y z {' '.join(rows)}", body=inner)
        inputs = [info("T", (), np.int64)] * self.counted
        inputs += [info("start", (), bool), info("bound", ())] * self.conditional
        inputs += [info("v0", (WIDTH,)), info("c0", ("N", WIDTH)), info("x", (WIDTH,))]
        return model([loop], inputs, ["y", "z", *rows], CONSTANTS)

    def feeds(self, trips: int, rows: int, seed: int) -> dict[str, Array]:
        random = np.random.default_rng([seed, rows])
        v, c, x = (
            random.integers(-3, 4, shape).astype(np.float32) for shape in ((WIDTH,), (rows, WIDTH), (WIDTH,))
        )
        x[0] = 2  # so that a sum may reach the bound
        feeds = {"v0": v, "c0": c, "x": x}
        if self.conditional:
            feeds |= {"start": np.array(trips != -1), "bound": np.float32(9)}
        return {"T": np.array(trips), **feeds} if self.counted else feeds

    def expected(self, feeds: dict[str, Array], most: int = 40) -> list[Array] | None:
        """The result of NumPy; None if the loop does not end within ``most`` iterations, or the cache gets
        large.
        """
        v, c, x = feeds["v0"], feeds["c0"], feeds["x"]
        goes_on, number = bool(feeds.get("start", True)), 0
        rows: list[list[Array]] = [[] for _ in self.rows]
        while goes_on and number < int(feeds.get("T", NO_LIMIT)):
            if number == most or len(c) > 5000:
                return None
            for name in self.steps:
                v = STEPS[name][1](v, c, x)
            v = np.clip(v, -64, 64)
            c = CACHES[self.cache][1](c, v)
            for made, row in zip(rows, self.rows, strict=True):
                made.append(ROWS[row][1](number, v, x))
            goes_on = not self.conditional or bool(v.max() < feeds["bound"])
            number += 1
        types = {"v2": (WIDTH,), "x": (WIDTH,)}
        return [
            v,
            c,
            *(np.array(m).reshape(-1, *types.get(r, ())) for m, r in zip(rows, self.rows, strict=True)),
        ]


def _rename(made: onnx.NodeProto, names: dict[str, str], suffix: str) -> None:
    """Put names in, also in the bodies of ``made``; inner values get names of their own."""
    inner = ("sums", "sum", "positive", "more", "less", "k", "k2", "j", "on2", "go2")
    inner += ("above", "kept", "total", "count", "repeated")
    names = {**names, **{name: name + suffix for name in inner}}
    made.input[:] = [names.get(name, name) for name in made.input]
    made.output[:] = [names.get(name, name) for name in made.output]
    made.name = made.output[0]
    for attribute in made.attribute:
        for each in attribute.g.node:
            _rename(each, names, suffix)
        for value in (*attribute.g.input, *attribute.g.output):
            value.name = names.get(value.name, value.name)


@st.composite
def repeats(draw: st.DrawFn) -> Repeat:
    """Loops of all kinds. Loops without a condition change the size of the cache, so that no program contains
    them.
    """
    conditional = draw(st.booleans())
    steps = draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3))
    caches = sorted(CACHES if conditional else CACHES.keys() - {"same"})
    rows = draw(st.lists(st.sampled_from(sorted(ROWS)), min_size=int(conditional), max_size=3))
    counted = not conditional or draw(st.booleans())
    return Repeat(tuple(steps), draw(st.sampled_from(caches)), tuple(rows), conditional, counted)
