"""Loops that native code runs between programs: results compared with NumPy, and how they end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.executable.nodes import CallHost, HostProgram
from graphwright.runtime.executor import RunError
from graphwright.tools.reports.host_program_table import show_host_program
from tests.executables import host_program
from tests.ops.loops import GOES_ON, NUMBER, body, compiled, const, info, model, node
from tests.threads import in_threads

from .repeats import NO_LIMIT, Repeat, repeats

LIMIT = info("T", (), np.int64)


def program_of(model: gw.Model) -> HostProgram:
    found = host_program(model.package)
    assert found is not None
    return found


def loop_of(model: gw.Model) -> CallHost:
    """The only node with a body that the host starts."""
    (host,) = (host for host in program_of(model).hosts() if host.bodies)
    return host


def looping(nodes: Any, states: Any, outputs: str, results: str, inputs: Any, constants: Any = ()) -> Any:
    """A loop of ``nodes`` without a condition, as often as the input T says; ``v0`` is where ``v`` starts."""
    nodes = [node("Identity", "on", "go"), *nodes]
    inner = body(nodes, [NUMBER, GOES_ON, *states], ["go", *outputs.split()], constants)
    starts = " ".join(f"{state.name}0" for state in states)
    return model([node("Loop", f"T _ {starts}", results, body=inner)], [LIMIT, *inputs], results.split())


@settings(deadline=None, max_examples=25, derandomize=True)
@given(repeats(), st.integers(0, 99))
def test_random_loops_equal_numpy(loop: Repeat, seed: int) -> None:
    model = compiled(loop.proto(), "cpu")
    assert loop_of(model).repeats
    hosts = len(program_of(model).hosts())
    for trips in (0, 1, 2, 7, NO_LIMIT) if loop.counted else (1, -1):
        for rows in (0, 1, 4):
            feeds = loop.feeds(trips, rows, seed)
            expected = loop.expected(feeds)
            if expected is None:
                continue
            for threads in (1, 2):
                model.threads = threads
                before = model.stats()["host_calls"]
                results = model.run(feeds).values()
                assert model.stats()["host_calls"] == before + hosts, "Python ran something in the loop"
                for got, want in zip(results, expected, strict=True):
                    np.testing.assert_array_equal(got, want)
                    assert got.flags.owndata


def turning() -> onnx.ModelProto:
    """Values that change places, the number of the run and a constant handed on, and what grows."""
    kinds = {"v": ((2,), "f4"), "w": ((2,), "f4"), "n": ((1,), "i8"), "c": (("k",), "i8"), "k": ((), "f4")}
    return looping(
        [
            node("Identity", "w", "v2"),
            node("Identity", "v", "w2"),
            node("Reshape", "i one", "n2"),
            node("Concat", "c n", "c2", axis=0),
            node("Identity", "three", "k2"),
            node("Concat", "w v", "row", axis=0),
        ],
        [info(name, shape, dtype) for name, (shape, dtype) in kinds.items()],
        "v2 w2 n2 c2 k2 row",
        "v1 w1 n1 c1 k1 rows",
        [info(f"{name}0", shape, dtype) for name, (shape, dtype) in kinds.items()],
        [const("three", 3.0), const("one", [1], np.int64)],
    )


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 20, 100])
def test_iterations_pass_carried_values_on(trips: int) -> None:
    model = compiled(turning(), "cpu")
    assert loop_of(model).repeats
    v, w = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    feeds = {
        "v0": v,
        "w0": w,
        "n0": np.array([-7]),
        "c0": np.array([5, 6]),
        "k0": np.float32(9),
    }
    kept = {name: array.copy() for name, array in feeds.items()}
    found = model.run({"T": np.array(trips), **feeds})
    turned = [(w, v) if k % 2 else (v, w) for k in range(trips + 1)]
    numbers = np.array([-7, *range(trips)])
    np.testing.assert_array_equal(found["v1"], turned[-1][0])
    np.testing.assert_array_equal(found["w1"], turned[-1][1])
    np.testing.assert_array_equal(found["n1"], numbers[-1:])
    np.testing.assert_array_equal(found["c1"], [5, 6, *numbers[:trips]])
    np.testing.assert_array_equal(found["k1"], 3 if trips else 9)
    rows = np.array([[*b, *a] for a, b in turned[:trips]], np.float32)
    np.testing.assert_array_equal(found["rows"], rows.reshape(trips, 4))
    arrays = [*feeds.values(), *found.values()]
    assert not any(np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])
    assert all(np.array_equal(feeds[name], array) for name, array in kept.items())


def test_out_takes_the_results() -> None:
    model = compiled(turning(), "cpu")
    feeds = {
        "T": np.array(5),
        "v0": np.ones(2, np.float32),
        "w0": np.zeros(2, np.float32),
        "n0": np.array([0]),
        "c0": np.zeros(0, np.int64),
        "k0": np.float32(0),
    }
    wanted = model.run(feeds)
    out = {"rows": np.empty((5, 4), np.float32), "c1": np.empty(5, np.int64)}
    found = model.run(feeds, out=out)
    for name, array in out.items():
        assert found[name] is array
        np.testing.assert_array_equal(array, wanted[name])
    with pytest.raises(gw.FeedError, match="rows"):
        model.run(feeds, out={"rows": np.empty((4, 4), np.float32)})


def growing(*nodes: Any, constants: Any = ()) -> onnx.ModelProto:
    """A vector ``c`` that becomes what ``nodes`` make ``c2`` of it and of ``x``."""
    inputs = [info("c0", ("N",)), info("x", ("M",))]
    return looping(nodes, [info("c", ("k",))], "c2", "c1", inputs, constants)


def test_sizes_that_are_1_in_the_first_iteration() -> None:
    """No plan is made for a product of 1 and 3 elements: the first run takes the slow path."""
    nodes = [
        node("Mul", "c x", "p"),
        node("ReduceSum", "p", "q", keepdims=0),
        node("Add", "s q", "s2"),
        node("Concat", "c x", "longer", axis=0),
        node("Slice", "longer last3 end", "c2"),
    ]
    constants = [const("last3", [-3], np.int64), const("end", [NO_LIMIT], np.int64)]
    inputs = [info("c0", ("N",)), info("s0", ()), info("x", ("M",))]
    model = compiled(
        looping(nodes, [info("c", ("k",)), info("s", ())], "c2 s2", "c1 s1", inputs, constants), "cpu"
    )
    assert loop_of(model).repeats
    x = np.array([1, 2, 3], np.float32)
    for trips in (1, 4, 0, 2):
        feeds = {"T": np.array(trips), "c0": np.full(1, 5, np.float32), "s0": np.float32(0), "x": x}
        found = model.run(feeds)
        np.testing.assert_array_equal(found["c1"], x if trips else [5])
        np.testing.assert_array_equal(found["s1"], 30 + 14 * (trips - 1) if trips else 0)


def test_a_kernel_that_fails_names_its_node() -> None:
    """The third run reads beyond the end."""
    nodes = [node("Gather", "x i", "g"), node("Reshape", "g one", "r"), node("Concat", "c r", "c2", axis=0)]
    model = compiled(growing(*nodes, constants=[const("one", [1], np.int64)]), "cpu")
    feeds = {"c0": np.zeros(1, np.float32), "x": np.array([1, 2], np.float32)}
    (found,) = model.run({"T": np.array(2), **feeds}).values()
    np.testing.assert_array_equal(found, [0, 1, 2])
    with pytest.raises(RunError, match="index is out of range") as caught:
        model.run({"T": np.array(3), **feeds})
    assert caught.value.diagnostics[0].where == "g"


def test_a_size_that_is_invalid_in_one_iteration() -> None:
    """Range(0, 10, s - i) has ceil(10 / (s - i)) elements; in iteration 3 its step is 0."""
    nodes = [
        node("Cast", "i", "number", to=onnx.TensorProto.FLOAT),
        node("Sub", "s number", "step"),
        node("Range", "zero ten step", "numbers"),
        node("ReduceSum", "numbers", "sum"),
        node("Concat", "c sum", "c2", axis=0),
    ]
    constants = [const("zero", 0.0), const("ten", 10.0)]
    inputs = [info("c0", ("N",)), info("s", ())]
    model = compiled(looping(nodes, [info("c", ("k",))], "c2", "c1", inputs, constants), "cpu")
    assert loop_of(model).repeats
    feeds = {"c0": np.zeros(1, np.float32), "s": np.float32(3)}
    (found,) = model.run({"T": np.array(3), **feeds}).values()
    np.testing.assert_array_equal(found, [0, 0 + 3 + 6 + 9, 0 + 2 + 4 + 6 + 8, 45])
    with pytest.raises(RunError, match="not a valid size") as caught:
        model.run({"T": np.array(4), **feeds})
    assert caught.value.diagnostics[0].where == "numbers"


def test_rows_of_several_shapes_are_rejected() -> None:
    nodes = [node("Concat", "c x", "c2", axis=0), node("Identity", "c2", "row")]
    inputs = [info("c0", ("N",)), info("x", ("M",))]
    proto = looping(nodes, [info("c", ("k",))], "c2 row", "c1 rows", inputs)
    model = compiled(proto, "cpu")
    assert loop_of(model).repeats
    x = np.ones(2, np.float32)
    assert model.run({"T": np.array(1), "c0": x, "x": x})["rows"].shape == (1, 4)
    with pytest.raises(
        RunError, match=r"output 0 has shape \(4,\) in iteration 0, but \(6,\) in iteration 1"
    ):
        model.run({"T": np.array(2), "c0": x, "x": x})


def test_a_trace_shows_every_run() -> None:
    model = compiled(growing(node("Concat", "c x", "c2", axis=0)), "cpu")
    times = model.trace({"T": np.array(3), "c0": np.ones(1, np.float32), "x": np.ones(2, np.float32)})
    assert [t.kernel for t in times].count("Loop") == 1
    assert len(times) == 1 + 3 * 2


MAX_TRIPS = """
import os, signal, sys, threading
import numpy as np
import graphwright as gw

model = gw.load(sys.argv[1], trust=True)
feeds = {"start": np.array(True), "v0": np.zeros(3, np.float32), "x": np.zeros(3, np.float32)}
feeds |= {"c0": np.zeros((1, 3), np.float32), "bound": np.float32(9)}
for _ in range(2):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        model.run(feeds)
    except KeyboardInterrupt:
        print("interrupted")
feeds["x"] += 5
print(model.run(feeds)["ys0"].tolist())
"""


def test_a_loop_that_never_ends_can_be_interrupted(tmp_path: Path) -> None:
    """Other threads get time as well: one of them interrupts the loop."""
    loop = Repeat(("add",), "slides", ("v2",), conditional=True, counted=False)
    compiled(loop.proto(), "cpu").save(tmp_path / "endless.om")
    ended = subprocess.run(
        [sys.executable, "-c", MAX_TRIPS, str(tmp_path / "endless.om")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.splitlines() == [
        "interrupted",
        "interrupted",
        "[[5.0, 5.0, 5.0], [10.0, 10.0, 10.0]]",
    ], ended.stderr


def test_the_report_says_which_loops_run_in_native_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = compiled(growing(node("Concat", "c x", "c2", axis=0)), "cpu")
    reason = loop_of(model).reason
    assert f"c1: in native code, called from Python, as {reason}" in model.report()
    show_host_program(program_of(model))
    shown = " ".join(capsys.readouterr().out.split())
    assert "host program: 1 subgraph, 1 loop in native code" in shown
    assert "Loop in native code, called from Python" in shown


def test_runs_in_several_threads() -> None:
    model = compiled(growing(node("Concat", "c x", "c2", axis=0)), "cpu")

    def work(seed: int) -> None:
        x = np.full(2, seed, np.float32)
        for trips in range(0, 60, 7):
            (found,) = model.run({"T": np.array(trips), "c0": x, "x": x}).values()
            np.testing.assert_array_equal(found, np.full(2 * (trips + 1), seed))

    in_threads(work, range(4))


def test_a_native_loop_carries_a_sequence_that_its_body_does_not_change() -> None:
    sequence = onnx.helper.make_tensor_sequence_value_info("q", onnx.TensorProto.FLOAT, None)
    nodes = [node("Identity", "on", "go"), node("Concat", "v v", "v2", axis=0), node("Identity", "q", "q2")]
    inner = body(nodes, [NUMBER, GOES_ON, info("v", (None,)), sequence], ["go", "v2", "q2"])
    proto = model(
        [node("SequenceConstruct", "v0", "q0"), node("Loop", "T _ v0 q0", "y qy", body=inner)],
        [LIMIT, info("v0", (None,))],
        ["y", "qy"],
    )
    made, v = compiled(proto, "cpu"), np.arange(3, dtype=np.float32)
    assert loop_of(made).repeats
    for trips in (0, 1, 3):
        y, q = made(np.array(trips), v)
        np.testing.assert_array_equal(y, np.tile(v, 2**trips))
        assert isinstance(q, list)
        np.testing.assert_array_equal(q, [v])
