"""Loops inside programs: their results, the copies that they avoid, and the loops that run on the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.executables import host_program
from tests.ops.loops import (
    GOES_ON,
    NUMBER,
    accumulating,
    body,
    by_us,
    compiled,
    const,
    growing,
    info,
    model,
    node,
    normal,
    scanning,
    unsqueezing,
)

from .loops import compare, copies_in_loops, loops_of, native, results


@pytest.mark.parametrize("trips", [1, 2, 7])
def test_a_counted_loop(trips: int) -> None:
    made = compare(accumulating(trips, (2, 3)), {"h0": normal(2, 3), "x": normal(2, 3)})
    assert made.stats()["host_calls"] == 0


def test_a_loop_that_never_runs() -> None:
    h, x = normal(2, 3), normal(2, 3)
    y, ys = results(native(accumulating(0, (2, 3))), {"h0": h, "x": x})
    np.testing.assert_array_equal(y, h)
    assert ys.shape == (0, 2, 3)


def until(limit: Any) -> Any:
    """``h = h + x`` while the sum of h is below 10, ``limit`` times at most."""
    nodes = [
        node("Add", "h x", "g"),
        node("ReduceSum", "g", "total", keepdims=0),
        node("Less", "total ten", "go"),
    ]
    inner = body(nodes, [NUMBER, GOES_ON, info("h", None)], ["go", "g"], [const("ten", 10.0)])
    loop = node("Loop", f"{'_' if limit is None else 'T'} start h0", "y", body=inner)
    inputs = [info("start", (), bool), info("h0", (2, 1)), info("x", (2, 1))]
    if limit == "fed":
        inputs.append(info("T", (), np.int64))
    constants = [const("T", limit, np.int64)] if isinstance(limit, int) else []
    return model([loop], inputs, ["y"], constants)


@pytest.mark.parametrize("limit", [None, 3, 50, "fed"])
@pytest.mark.parametrize("start", [True, False])
def test_a_condition_ends_a_loop_early(limit: Any, start: bool) -> None:
    ones = np.ones((2, 1), np.float32)
    feeds: dict[str, Any] = {"start": np.array(start), "h0": ones * 0, "x": ones}
    for given in (0, 1, 4, 9) if limit == "fed" else (0,):
        if limit == "fed":
            feeds["T"] = np.array(given)
        compare(until(limit), feeds)


def carrying(results_of: str, nodes: Any, names: str = "a b", size: int = 4, trips: int = 5) -> Any:
    """A loop that carries ``names`` and hands on ``results_of``."""
    carried = names.split()
    inner = body(
        [node("Identity", "on", "go"), *nodes],
        [NUMBER, GOES_ON, *(info(n, (size,)) for n in carried)],
        ["go", *results_of.split()],
        [const("one", np.ones(size)), const("w", np.eye(size) * 0.5)],
    )
    starts = " ".join(f"{n}0" for n in carried)
    loop = node("Loop", f"T _ {starts}", " ".join(f"{n}1" for n in carried), body=inner)
    inputs = [info("T", (), np.int64), *(info(f"{n}0", (size,)) for n in carried)]
    return model([loop], inputs, [f"{n}1" for n in carried])


def feeds_of(proto: Any, trips: int, size: int = 4) -> dict[str, Any]:
    names = [i.name for i in proto.graph.input]
    return {name: np.array(trips) if name == "T" else normal(size) for name in names}


HANDED: dict[str, tuple[Any, int]] = {
    "in place": (carrying("a2", [node("Add", "a one", "a2")], "a"), 0),
    "each in place": (carrying("a2 b2", [node("Add", "a one", "a2"), node("Mul", "b b", "b2")]), 0),
    "written behind its readers": (
        carrying("a2", [node("MatMul", "a w", "p"), node("MatMul", "p w", "a2")], "a"),
        0,
    ),
    "unchanged": (carrying("a b2", [node("Identity", "b", "b3"), node("Sub", "b3 a", "b2")]), 0),
    "fibonacci": (carrying("b2 s", [node("Identity", "b", "b2"), node("Add", "a b", "s")]), 2),
    "swapped": (carrying("b2 a2", [node("Identity", "b", "b2"), node("Identity", "a", "a2")]), 3),
    "turned": (
        carrying(
            "b2 c2 a2",
            [node("Identity", "b", "b2"), node("Identity", "c", "c2"), node("Identity", "a", "a2")],
            "a b c",
        ),
        4,
    ),
    "twice": (carrying("s s2", [node("Add", "a b", "s"), node("Identity", "s", "s2")]), 1),
    "a constant": (carrying("k b2", [node("Identity", "one", "k"), node("Sub", "b a", "b2")]), 1),
}


@pytest.mark.parametrize("name", HANDED)
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 8])
def test_values_carried_from_iteration_to_iteration(name: str, trips: int) -> None:
    proto, _ = HANDED[name]
    compare(proto, feeds_of(proto, trips))


@pytest.mark.parametrize("name", HANDED)
def test_copies_in_each_run(name: str) -> None:
    proto, copies = HANDED[name]
    made = native(proto)
    assert len(loops_of(made)) == 1
    assert copies_in_loops(made) <= copies


def test_the_number_of_the_run_and_rows_of_inputs() -> None:
    nodes = [
        node("Identity", "on", "go"),
        node("Cast", "i", "f", to=1),
        node("Gather", "x i", "row", axis=0),
        node("Mul", "row w", "scaled"),
        node("Add", "scaled f", "z"),
        node("Add", "h z", "g"),
        node("Identity", "h", "before"),
    ]
    inner = body(nodes, [NUMBER, GOES_ON, info("h", (3,))], ["go", "g", "z", "before"])
    loop = node("Loop", "T yes h0", "y ys hs", body=inner)
    constants = [const("T", 5, np.int64), const("yes", value=True, dtype=bool), const("w", [2.0, 3.0, 4.0])]
    proto = model([loop], [info("h0", (3,)), info("x", (5, 3))], ["y", "ys", "hs"], constants)
    made = compare(proto, {"h0": normal(3), "x": normal(5, 3)})
    assert copies_in_loops(made) <= 1  # of h: a kernel of several results makes none in place


def nested(outer: int, size: Any = 6) -> Any:
    """The k-th run of the outer loop adds x k times, or takes it off where an If finds a positive sum."""
    step = [
        node("Identity", "on2", "go2"),
        node("ReduceSum", "k", "sum", keepdims=0),
        node("Greater", "sum zero", "positive"),
        node(
            "If",
            "positive",
            "k2",
            then_branch=body([node("Sub", "k x", "less")], [], ["less"]),
            else_branch=body([node("Add", "k x", "more")], [], ["more"]),
        ),
    ]
    inner = body(step, [info("j", (), np.int64), info("on2", (), bool), info("k", None)], ["go2", "k2"])
    nodes = [node("Identity", "on", "go"), node("Loop", "i _ h", "g", body=inner), node("Neg", "g", "g3")]
    around = body(nodes, [NUMBER, GOES_ON, info("h", None)], ["go", "g", "g3"])
    loop = node("Loop", "T _ h0", "y ys", body=around)
    constants = [const("T", outer, np.int64), const("zero", 0.0)]
    return model([loop], [info("h0", (size,)), info("x", (size,))], ["y", "ys"], constants)


@pytest.mark.parametrize("size", [1, 6, 5000])
def test_nested_loops_with_branches(size: int) -> None:
    made = compare(nested(5, size), {"h0": normal(size), "x": normal(size)})
    assert len(loops_of(made)) == 2


@pytest.mark.parametrize("out", [(0, 0), (1, 1)])
@pytest.mark.parametrize(("axes", "flags"), [(None, None), ((0, 1), (0, 1)), ((1, 0), (1, 0))])
def test_scans_equal_references_and_copy_nothing(axes: Any, flags: Any, out: tuple[int, int]) -> None:
    proto = scanning(axes, flags, *out)
    shapes = [tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in proto.graph.input]
    made = compare(proto, dict(zip(("s0", "x", "w"), (normal(*shape) for shape in shapes), strict=True)))
    assert copies_in_loops(made) == 0


def test_a_scan_of_a_symbolic_length() -> None:
    made = native(scanning(length="T"))
    for length in (0, 1, 3, 7):
        s, x, w = normal(3), normal(length, 3), normal(length, 3)
        y, ys = results(made, {"s0": s, "x": x, "w": w})
        rows = s + np.cumsum(x * w, axis=0)
        assert ys.shape == (length, 3)
        np.testing.assert_allclose(ys, rows, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(y, ys[-1] if length else s)


@pytest.mark.parametrize("proto", [growing(), unsqueezing()])
def test_loops_whose_shapes_change_are_left_to_the_host(proto: Any) -> None:
    assert host_program(compiled(proto, "cpu").package) is not None


def test_rows_of_unknown_number_are_left_to_the_host() -> None:
    made = compiled(accumulating(None, (2, 1), conditional=True), "cpu")
    assert host_program(made.package) is not None


def test_rows_as_many_as_an_input_says() -> None:
    """The size is computed between two programs; the loop is in the second one."""
    proto = accumulating("fed", (2, 3))
    model = compiled(proto, "cpu")
    program = host_program(model.package)
    assert program is not None and program.hosts() == []
    h, x = normal(2, 3), normal(2, 3)
    for trips in (-1, 0, 1, 5):
        feeds = {"T": np.array(trips), "h0": h, "x": x}
        y, ys = model.run(feeds).values()
        assert ys.shape == (max(trips, 0), 2, 3)
        np.testing.assert_allclose(y, h + max(trips, 0) * x, rtol=1e-5, atol=1e-5)
        for got, want in zip((y, ys), by_us(proto, feeds), strict=True):
            np.testing.assert_array_equal(got, want)


MAX_TRIPS = """
import os, signal, sys, threading
import numpy as np
import graphwright as gw

model = gw.load(sys.argv[1], trust=True)
size = model.inputs[1].shape[0]
feeds = {"start": np.array(True), "bound": np.float32(9)}
feeds |= {name: np.zeros((size, size), np.float32) for name in ("h0", "x")}
for model.threads in (1, 2):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        model.run(feeds)
    except KeyboardInterrupt:
        print("interrupted")
feeds["bound"] -= 10
print(model.run(feeds)["y"].sum())
"""


@pytest.mark.parametrize("size", [8, 200])
def test_a_loop_that_never_ends_can_be_interrupted(size: int, tmp_path: Path) -> None:
    """Worker threads may be running the loop's body too."""
    nodes = [
        node("Add", "h x", "a"),
        node("MatMul", "a w", "g"),
        node("ReduceMax", "g", "most", keepdims=0),
        node("Less", "most bound", "go"),
    ]
    shape = (size, size)
    inner = body(nodes, [NUMBER, GOES_ON, info("h", shape)], ["go", "g"], [const("w", np.zeros(shape))])
    inputs = [info("start", (), bool), info("h0", shape), info("x", shape), info("bound", ())]
    native(model([node("Loop", "_ start h0", "y", body=inner)], inputs, ["y"])).save(tmp_path / "endless.om")
    ended = subprocess.run(
        [sys.executable, "-c", MAX_TRIPS, str(tmp_path / "endless.om")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.split() == ["interrupted", "interrupted", "0.0"], ended.stderr
