"""Profiles of models; the checked counts do not depend on time."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright import _native
from graphwright.config import Options
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.unary import Relu
from graphwright.profiling.profile import Profile
from graphwright.profiling.rows import BETWEEN, SORTS, Span, own_times
from graphwright.runtime.events.counters import HARDWARE
from graphwright.support.event_sink import EventKind
from tests.executables import targets
from tests.onnx_models import onnx_model
from tests.package.models import Classifier
from tests.tools.support import HOSTILE

from .trace_reader import Slice, Trace, read_trace

FLOAT = TensorProto.FLOAT


def product(options: Options, rows: int | str = 6, mark: str = "") -> gw.Model:
    """``y = a @ b`` with ``a: f32[rows, 5]`` and ``b: f32[5, 7]``, both inputs."""
    node = helper.make_node("MatMul", [f"a{mark}", f"b{mark}"], [f"y{mark}"], f"product{mark}")
    inputs = {f"a{mark}": (FLOAT, [rows, 5]), f"b{mark}": (FLOAT, [5, 7])}
    return gw.compile(onnx_model([node], inputs, {f"y{mark}": (FLOAT, [rows, 7])}), options=options)


def operands(rows: int = 6) -> tuple[np.ndarray, np.ndarray]:
    return np.ones((rows, 5), np.float32), np.ones((5, 7), np.float32)


def test_operations_and_bytes_of_a_product(options: Options) -> None:
    model = product(options)
    with gw.profile() as p:
        for _ in range(3):
            model(*operands())
    (row,) = [row for row in p.rows(group="op") if row.name != BETWEEN]
    assert (row.name, row.calls) == ("MatMul", 3)
    assert row.operations == 3 * 2 * 6 * 5 * 7
    assert (row.read, row.written) == (3 * 4 * (6 * 5 + 5 * 7), 3 * 4 * 6 * 7)
    assert row.gflops == row.operations / row.total_ns and row.roofline_ns > 0
    assert p.totals.runs == 3 and p.totals.plans_made + p.totals.plans_kept == 3


def test_dynamic_sizes_count_as_they_are(options: Options) -> None:
    model = product(options, "N")
    with gw.profile() as p:
        for rows in (1, 4, 4):
            model(*operands(rows))
    (row,) = [row for row in p.rows(group="source") if row.name != BETWEEN]
    assert row.name == "product" and row.operations == 2 * (1 + 4 + 4) * 5 * 7
    assert row.written == 4 * (1 + 4 + 4) * 7 and p.totals.plans_made == 2


OPERATIONS = {
    "Conv": (
        helper.make_node("Conv", ["x", "w"], ["y"], group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
        {"x": [2, 4, 9, 9], "w": [6, 2, 3, 3]}, [2, 6, 5, 5], 2 * (2 * 6 * 5 * 5) * (2 * 3 * 3),
    ),
    "ConvTranspose": (
        helper.make_node("ConvTranspose", ["x", "w"], ["y"]),
        {"x": [1, 4, 5, 5], "w": [4, 3, 2, 2]}, [1, 3, 6, 6], 2 * (4 * 5 * 5) * (3 * 2 * 2),
    ),
    "Gemm": (
        helper.make_node("Gemm", ["x", "w"], ["y"], transA=1),
        {"x": [5, 3], "w": [5, 4]}, [3, 4], 2 * 3 * 4 * 5,
    ),
    "MatMul": (
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        {"x": [2, 3, 4, 5], "w": [3, 5, 6]}, [2, 3, 4, 6], 2 * (2 * 3 * 4 * 6) * 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_by_definition(name: str, options: Options) -> None:
    node, shapes, result, operations = OPERATIONS[name]
    specs = {key: (FLOAT, shape) for key, shape in shapes.items()}
    model = gw.compile(onnx_model([node], specs, {"y": (FLOAT, result)}), options=options)
    with gw.profile() as p:
        assert model(*(np.ones(shape, np.float32) for shape in shapes.values()))[0].shape == tuple(result)
    assert sum(row.operations for row in p.rows()) == operations


def test_operations_are_those_of_the_form_that_runs(options: Options) -> None:
    """Sizes of a run choose between direct convolution and Winograd."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])
    specs = {"x": (FLOAT, [1, 64, "H", "W"])}
    model = gw.compile(
        onnx_model([node], specs, {"y": (FLOAT, [1, 64, "H", "W"])}, {"w": w}), options=options
    )
    forms = set()
    for side in (1, 2, 3, 64):
        with gw.profile() as p:
            model(np.ones((1, 64, side, side), np.float32))
        (row,) = [row for row in p.rows() if row.operations]
        assert row.operations == 2 * 64 * 64 * 9 * side * side and row.gflops < 10_000
        forms.add(row.name)
    assert len(forms) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_each_task_of_each_run_is_counted(
    model: gw.Model, classifier: Classifier, threads: int, tmp_path: Path
) -> None:
    (target,) = targets(model.package).values()
    tasks = target.task_graph.tasks
    model.threads = threads
    with gw.profile() as p:
        for _ in range(4):
            model(classifier.x)
    assert p.totals.tasks == 4 * len(tasks) and p.totals.lost == p.totals.failed == 0
    assert Counter(p.tasks["task"].tolist()) == dict.fromkeys(range(len(tasks)), 4)
    for group in ("kernel", "source", "op"):
        rows = p.rows(group=group)
        assert sum(row.calls for row in rows) == 4 * len(tasks)
        assert sum(row.share for row in rows) == pytest.approx(1)
    assert Counter(row.name for row in p.rows(group="source") if row.name != BETWEEN) == Counter(
        {task.name for task in tasks}
    )
    p.chrome_trace(tmp_path / "trace.json")
    assert_shows(read_trace(tmp_path / "trace.json"), p, [task.after for task in tasks], 4)


def assert_shows(trace: Trace, p: Any, after: list[tuple[int, ...]], runs: int) -> None:
    """Asserts that each piece is within the time of its run, and that an arrow leads to it from each task
    that it waited for.
    """
    slices = trace.slices()
    pieces = [s for s in slices if s.category == "task"]
    whole = {s.details["run"]: s for s in slices if s.category == "run"}
    assert len(whole) == runs and len(pieces) == len(p.events.of_kind(EventKind.PIECE))
    for piece in pieces:
        run = whole[piece.details["run"]]
        assert run.start <= piece.start and piece.end <= run.end + 1e-3
    expected = Counter((before, task) for task, all_before in enumerate(after) for before in all_before)
    found = Counter((a.details["task"], b.details["task"]) for a, b in trace.arrows)
    assert found == {pair: count * runs for pair, count in expected.items()}
    assert all(a.details["run"] == b.details["run"] and a.end <= b.start + 1e-3 for a, b in trace.arrows)
    used = trace.counters["arena bytes in use"]
    assert len(used) == 2 * runs and used[-1][1] == 0


def test_rows_add_up_to_the_time_of_the_runs(model: gw.Model, classifier: Classifier) -> None:
    """On one thread, the time of runs is the sum of the times of tasks and of the time between them."""
    model.threads = 1
    with gw.profile() as p:
        for _ in range(5):
            model(classifier.x)
    assert sum(row.self_ns for row in p.rows()) == p.totals.run_ns


def test_hostile_names_are_escaped(options: Options, tmp_path: Path) -> None:
    model = product(options, mark=HOSTILE)
    with gw.profile() as p:
        model(*operands())
    for group in ("kernel", "source", "op"):
        text = str(p.table(group=group))
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "<id>" not in p.table(group=group)._repr_html_()
    p.chrome_trace(tmp_path / "trace.json")
    (task,) = [s for s in read_trace(tmp_path / "trace.json").slices() if s.category == "task"]
    assert task.name == f"product{HOSTILE}" and task.details["nodes"] == task.name
    p.html(tmp_path / "page.html", title=f"<script>{HOSTILE}")
    page = (tmp_path / "page.html").read_text()
    assert "<script>" not in page and "\x1b" not in page and "default-src 'none'" in page
    assert "http" not in page.replace('http-equiv="Content', "")


def test_the_profile_of_a_run_that_fails(options: Options, tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="look_up")
    specs = {"x": (FLOAT, ["N"]), "i": (TensorProto.INT64, ["K"])}
    model = gw.compile(onnx_model([node], specs, {"y": (FLOAT, ["K"])}), options=options)
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(gw.GraphwrightError, match="look_up"), gw.profile() as p:
        model(x, np.array([3, -4]))
        model(x, np.array([9]))
    failed = p.totals.failed
    assert failed >= 1 and p.totals.runs == failed + 1 and f"{failed} of them failed" in str(p.table())
    p.chrome_trace(tmp_path / "trace.json")
    runs = [s for s in read_trace(tmp_path / "trace.json").slices() if s.category == "run"]
    assert [run.details["failed"] for run in runs] == [False] + [True] * failed
    with pytest.raises(gw.FeedError), gw.profile() as p:
        model(x)
    assert p.totals.runs == 0 and p.rows() == []
    p.chrome_trace(tmp_path / "empty.json")
    assert read_trace(tmp_path / "empty.json").slices() == []


def test_several_models_and_threads_in_one_profile(options: Options, tmp_path: Path) -> None:
    models = {name: product(replace(options, threads=1), mark=name) for name in ("left", "right")}

    def work(name: str) -> None:
        for _ in range(10):
            models[name](*operands())

    with gw.profile() as p:
        callers = [threading.Thread(target=work, args=(name,), name=f"{name} caller") for name in models]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        work("left")
        with gw.profile() as inner:
            work("right")
    assert p.totals.runs == 40 and inner.totals.runs == 10
    calls = {row.name: row.calls for row in p.rows(group="source", sort="name")}
    assert calls.pop(BETWEEN) == 0 and calls == {"productleft": 20, "productright": 20}
    p.chrome_trace(tmp_path / "trace.json")
    trace = read_trace(tmp_path / "trace.json")
    assert [sum(s.category == "run" for s in track) for track in trace.tracks.values()].count(10) == 2
    assert "MainThread" in trace.names.values()


def test_a_profile_may_be_read_while_it_goes_on(options: Options) -> None:
    model = product(options)
    p = gw.profile()
    with pytest.raises(RuntimeError, match="not begun"):
        p.table()
    with p:
        model(*operands())
        assert p.totals.runs == 1
        model(*operands())
    model(*operands())
    assert p.totals.runs == 2


def test_profiles_name_models_that_were_deleted(options: Options) -> None:
    with gw.profile() as p:
        model = product(options)
        model(*operands())
        del model
    assert {row.name for row in p.rows(group="source")} == {"product", BETWEEN}
    stages = {p.events.texts[number] for number in p.events.of_kind(EventKind.STAGE)["id"]}
    assert {"import", "select", "lower", "kernels"} <= stages
    assert f"compilations: {p.totals.stages} stages" in str(p.table())


def test_nodes_in_python_are_rows_without_what_they_contain(options: Options, tmp_path: Path) -> None:
    node = helper.make_node("Concat", ["x", "w"], ["y"], name="join", axis=0)
    specs = {"x": (TensorProto.STRING, ["N"])}, {"y": (TensorProto.STRING, ["M"])}
    model = gw.compile(onnx_model([node], *specs, {"w": np.array(["p"], object)}), options=options)
    with gw.profile() as p:
        model(np.array(["a", "b"], object))
    assert p.totals.nodes == 1
    (row,) = [row for row in p.rows(group="source") if row.name == "join"]
    assert row.calls == 1 and [r.name for r in p.rows(group="op")] == ["Concat"]
    p.chrome_trace(tmp_path / "trace.json")
    (slice,) = [s for s in read_trace(tmp_path / "trace.json").slices() if s.category == "python"]
    assert slice.name == "Concat join"


def test_self_time_excludes_nested_spans() -> None:
    outer, first, second, inner = Span(0, 100), Span(10, 40), Span(50, 60), Span(20, 30)
    after = Span(100, 130)
    found = dict(own_times([inner, outer, after, first, second]))
    assert found == {outer: 60, first: 20, second: 10, inner: 10, after: 30}


def test_events_that_do_not_fit_are_said(options: Options) -> None:
    model = product(options)
    with gw.profile(max_events=4) as p:
        for _ in range(9):
            model(*operands())
    assert p.totals.lost > 0
    assert f"{p.totals.lost} events did not fit" in str(p.table())


def test_unknown_groups_and_sorts_are_rejected(options: Options) -> None:
    with gw.profile() as p:
        product(options)(*operands())
    with pytest.raises(ValueError, match="kernel, source, op"):
        p.table(group="node")
    with pytest.raises(ValueError, match="self, total"):
        p.table(sort="time")
    for sort in SORTS:
        assert len(p.rows(sort)) == 2
    assert str(p.table(top=1)).count("and 1 row more") == 1


def test_a_file_that_cannot_be_written_leaves_none(options: Options, tmp_path: Path) -> None:
    with gw.profile() as p:
        product(options)(*operands())
    with pytest.raises(OSError, match="no_folder"):
        p.chrome_trace(tmp_path / "no_folder" / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_graphs_built_by_hand(tmp_path: Path) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", F32, (4,))
    y = b(Add(), b(Relu(), x), x)
    b.output("y", b(MatMul(), y, y))
    model = b.compile()
    with gw.profile() as p:
        model(np.ones(4, np.float32))
    assert sum(row.operations for row in p.rows()) == 2 * 4
    p.chrome_trace(tmp_path / "trace.json")
    found: list[Slice] = read_trace(tmp_path / "trace.json").slices()
    assert {s.category for s in found} == {"plan", "run", "task"}


def running_sums(options: Options) -> gw.Model:
    """The sums of the first rows of ``x``, one for each row: a loop of tasks."""
    state, row = (helper.make_tensor_value_info(name, FLOAT, [4]) for name in ("s", "r"))
    after, made = (helper.make_tensor_value_info(name, FLOAT, [4]) for name in ("t", "u"))
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "r"], ["t"], "add"), helper.make_node("Identity", ["t"], ["u"])],
        "body", [state, row], [after, made],
    )  # fmt: skip
    node = helper.make_node("Scan", ["s0", "x"], ["sum", "sums"], "scan", body=body, num_scan_inputs=1)
    inputs = {"s0": (FLOAT, [4]), "x": (FLOAT, ["N", 4])}
    outputs = {"sum": (FLOAT, [4]), "sums": (FLOAT, ["N", 4])}
    return gw.compile(onnx_model([node], inputs, outputs), options=options)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_each_run_of_a_loop_is_a_call(options: Options, rows: int, tmp_path: Path) -> None:
    model = running_sums(options)
    graph = next(iter(targets(model.package).values())).task_graph
    outer, inner = (block.count for block in graph.blocks)
    x = np.ones((rows, 4), np.float32)
    with gw.profile() as p:
        for _ in range(2):
            assert model(np.zeros(4, np.float32), x)[0].tolist() == [rows] * 4
    assert p.totals.tasks == 2 * (outer + inner * rows) == sum(row.calls for row in p.rows())
    assert sum(row.self_ns for row in p.rows()) == p.totals.run_ns
    (loop,) = [row for row in p.rows() if row.name == "loop"]
    inside = [row for row in p.rows(group="kernel") if row.name not in ("loop", BETWEEN)]
    assert loop.calls == 2 and loop.self_ns <= loop.total_ns and inside
    p.chrome_trace(tmp_path / "trace.json")
    trace = read_trace(tmp_path / "trace.json")
    assert [category for category, _ in trace.spans] == ["control flow"] * 2
    assert len(model.trace({"s0": np.zeros(4, np.float32), "x": x})) == outer + inner * rows


def test_counters_are_shown_or_reported_as_missing(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = product(options)
    with gw.profile(counters=("page_faults",)) as p:
        model(*operands())
    assert p.missing_counters == () and "page_faults" in str(p.table()).splitlines()[0]
    assert all("page_faults" in row.counts for row in p.rows() if row.name != BETWEEN)
    p.chrome_trace(tmp_path / "trace.json")
    tasks = [s for s in read_trace(tmp_path / "trace.json").slices() if s.category == "task"]
    assert [task.details["page_faults"] >= 0 for task in tasks] == [True] * len(tasks)
    monkeypatch.setattr(_native, "can_count", lambda number: number != HARDWARE.index("cycles"))
    assert Profile(counters=True).missing_counters == ("cycles",)
    monkeypatch.setattr(_native, "can_count", lambda number: False)
    with gw.profile(counters=True) as p:
        model(*operands())
    assert p.missing_counters == HARDWARE and p.events.counters == ()
    assert str(p.table()).endswith("counters that this machine does not have: " + ", ".join(HARDWARE))
    with pytest.raises(ValueError, match="the counters are cycles"):
        gw.profile(counters=("misses",))
