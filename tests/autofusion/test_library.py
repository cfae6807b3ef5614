"""The library of operators in the installed ONNX Runtime: indices in its table of functions, results with
dynamic dimensions, rejected inputs, threads and sessions.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from graphwright.autofusion.autofuse import Autofused, Request, autofuse
from graphwright.autofusion.onnxruntime.operator_library import Library
from graphwright.config import Options
from graphwright.errors import ToolchainError
from graphwright.export.onnx import FUNCTION_DOMAIN, OnnxModel, save_model
from graphwright.targets.cpu.isa import ISAS
from graphwright.tools import graph_autofusion
from graphwright.tools.graph_autofusion import app
from graphwright.tools.measuring.bench import Ratio
from graphwright.tools.measuring.library_measurement import measure_programs, slower_programs
from tests.autofusion.sessions import with_library
from tests.export.peers import session

RNG = np.random.default_rng(0)
WIDTH = 24
TEXT = f"""
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, {WIDTH}] x, float[n, k] z, int64[k] steps, float16[n] halves, bool[n] flags)
    => (float[n, k] y, int64[k] counts, double[n] means, float16[n] doubled, bool[n] turned)
    <float[{WIDTH}, {WIDTH}] w, float[{WIDTH}] b> {{
    h = MatMul (x, w)
    t = Add (h, b)
    r = Relu (t)
    s = ReduceMean <axes = [1], keepdims = 1> (r)
    a = Sigmoid (z)
    c = Mul (a, s)
    y = Softmax <axis = -1> (c)
    e = Mul (steps, steps)
    counts = Sub (e, steps)
    f = Cast <to = 11> (z)
    q = Mul (f, f)
    means = ReduceMean <axes = [1], keepdims = 0> (q)
    doubled = Add (halves, halves)
    turned = Not (flags)
}}"""


def source() -> onnx.ModelProto:
    """Products, rows, elements; floats of three widths, integers, truth values; two dynamic sizes."""
    model = onnx.parser.parse_model(TEXT)
    weights = {"w": RNG.normal(size=(WIDTH, WIDTH)), "b": RNG.normal(size=WIDTH)}
    del model.graph.initializer[:]
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    return model


MODEL = source()


@pytest.fixture(scope="module")
def fused() -> Autofused:
    return autofuse(MODEL, Request(library=True))


@pytest.fixture(scope="module")
def library(fused: Autofused, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "fused.so"
    write(fused, path)
    return path


def write(fused: Autofused, path: Path) -> None:
    assert fused.operator_library is not None
    with open(path, "wb") as file:
        fused.operator_library.write(file)


def feeds(n: int, k: int) -> dict[str, np.ndarray]:
    return {
        "x": RNG.normal(size=(n, WIDTH)).astype(np.float32),
        "z": RNG.normal(size=(n, k)).astype(np.float32),
        "steps": RNG.integers(-9, 9, k),
        "halves": RNG.normal(size=n).astype(np.float16),
        "flags": RNG.random(n) < 0.5,
    }


def expected(feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The expected results, in f64."""
    w, b = (numpy_helper.to_array(tensor).astype(np.float64) for tensor in MODEL.graph.initializer)
    means = np.maximum(feed["x"] @ w + b, 0).mean(axis=1, keepdims=True)
    logits = means / (1 + np.exp(-feed["z"].astype(np.float64)))
    powers = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    steps, halves = feed["steps"], feed["halves"]
    with np.errstate(invalid="ignore"):
        squares = np.square(feed["z"].astype(np.float64)).sum(axis=1) / feed["z"].shape[1]
    return [
        powers / powers.sum(axis=1, keepdims=True),
        steps * steps - steps,
        squares,
        halves + halves,
        ~feed["flags"],
    ]


def check(given: list[np.ndarray], feed: dict[str, np.ndarray]) -> None:
    wanted = expected(feed)
    for ours, theirs in zip(given, wanted, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert [each.dtype for each in given] == [np.float32, np.int64, np.float64, np.float16, np.bool_]


def test_one_program_runs_the_whole_model(fused: Autofused) -> None:
    assert fused.operator_library is not None
    assert fused.operator_library.refused == fused.operator_library.outside == {}
    assert len(fused.operator_library.operators) == 1
    assert [each.isa for each in fused.operator_library.compiled] == list(ISAS)


def test_the_operator_of_the_library_is_taken(fused: Autofused, library: Path, tmp_path: Path) -> None:
    assert fused.operator_library is not None
    run = with_library(fused, library, profile=str(tmp_path / "profile"))
    run.run(None, feeds(3, 5))
    events = json.loads(Path(run.end_profiling()).read_text())
    executed = {event["args"]["op_name"] for event in events if event.get("cat") == "Node"}
    assert executed == {fused.operator_library.operators[0].name}


@pytest.mark.parametrize("shape", [(1, 1), (2, 7), (0, 5), (0, 1), (13, 33), (5, 64), (1031, 301)])
@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_those_of_numpy(
    fused: Autofused, library: Path, shape: tuple[int, int], threads: int
) -> None:
    """Results are the same in ONNX Runtime's threads, where large launches are divided. A known shape reuses
    its plan.
    """
    run = with_library(fused, library, threads)
    for _ in range(2):
        feed = feeds(*shape)
        check(run.run(None, feed), feed)


def test_the_model_runs_without_the_library_as_well(fused: Autofused) -> None:
    feed = feeds(4, 9)
    check(session(fused.model.with_weights()).run(None, feed), feed)


def test_a_library_of_other_weights_is_not_used(library: Path) -> None:
    """ONNX Runtime takes the functions of the model, which have its own weights."""
    other = onnx.ModelProto()
    other.CopyFrom(MODEL)
    for tensor in other.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(tensor), tensor.name))
    feed = feeds(3, 5)
    got = with_library(autofuse(other, Request(library=True)), library).run(None, feed)
    w, b = (numpy_helper.to_array(tensor).astype(np.float64) for tensor in other.graph.initializer)
    means = np.maximum(feed["x"] @ w + b, 0).mean(axis=1, keepdims=True)
    powers = np.exp(means / (1 + np.exp(-feed["z"].astype(np.float64))))
    np.testing.assert_allclose(got[0], powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def test_operands_of_other_sizes_are_rejected(fused: Autofused, library: Path) -> None:
    """x and z share the size n, so a kernel would read beyond the smaller one. The session remains usable."""
    run, feed = with_library(fused, library), feeds(4, 9)
    with pytest.raises(Exception, match=r"do not fit together: 2 and 4; its inputs are \[4, 24\]"):
        run.run(None, feed | {"z": feed["z"][:2]})
    check(run.run(None, feed), feed)


def test_many_source_nodes_are_counted_in_a_name_and_listed_in_metadata(fused: Autofused) -> None:
    (call,) = (node for node in fused.model.proto.graph.node if node.domain == FUNCTION_DOMAIN)
    (listed,) = (
        json.loads(entry.value) for entry in call.metadata_props if entry.key == "graphwright.sources"
    )
    assert len(listed) == len(MODEL.graph.node)
    assert call.name == f"{listed[0]} and {len(listed) - 1} others"


def test_an_index_out_of_range_is_named(tmp_path: Path) -> None:
    fused = autofuse(
        onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]> g (float[n] x, int64[k] at) => (float[k] y) {
            a = Abs (x)
            b = Gather (a, at)
            y = Neg (b)
        }"""),
        Request(library=True),
    )
    write(fused, tmp_path / "m.so")
    run = with_library(fused, tmp_path / "m.so")
    x = RNG.normal(size=5).astype(np.float32)
    (y,) = run.run(None, {"x": x, "at": np.array([4, -5])})
    np.testing.assert_array_equal(y, -np.abs(x[[4, 0]]))
    with pytest.raises(Exception, match="an index is out of range: 5, which must be from -5 to 4"):
        run.run(None, {"x": x, "at": np.array([0, 5])})


def test_a_session_runs_in_several_threads(fused: Autofused, library: Path) -> None:
    run = with_library(fused, library, 2)
    inputs = [feeds(n, k) for n, k in [(700, 90), (3, 5), (0, 2), (211, 64)] * 6]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda feed: run.run(None, feed), inputs))
    for feed, given in zip(inputs, results, strict=True):
        check(given, feed)


def test_sessions_share_a_library_and_end_in_any_order(fused: Autofused, library: Path) -> None:
    sessions = [with_library(fused, library, threads) for threads in (1, 2, 2)]
    feed = feeds(301, 64)
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda run: run.run(None, feed), sessions))
    del sessions[0]
    results += [run.run(None, feed) for run in sessions]
    for given in results:
        check(given, feed)


def test_libraries_of_two_models_run_in_one_process(fused: Autofused, library: Path, tmp_path: Path) -> None:
    """Each library has its own runtime, and kernels of the same names."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y)'
        " { a = Exp (x) b = Add (a, x) y = Softmax <axis = 0> (b) }"
    )
    other = autofuse(model, Request(library=True))
    write(other, tmp_path / "other.so")
    first, second = with_library(fused, library), with_library(other, tmp_path / "other.so")
    feed, x = feeds(5, 6), RNG.normal(size=33).astype(np.float32)
    powers = np.exp(np.exp(x.astype(np.float64)) + x)
    check(first.run(None, feed), feed)
    np.testing.assert_allclose(second.run(None, {"x": x})[0], powers / powers.sum(), rtol=1e-5)
    check(first.run(None, feed), feed)


def test_one_thread_is_one_thread(fused: Autofused, library: Path, tmp_path: Path) -> None:
    """A session with intra_op_num_threads=1 starts no thread, and neither does the library."""
    save_model(fused.model, tmp_path / "m.onnx")
    np.savez(tmp_path / "feeds.npz", **feeds(1031, 301))
    script = (
        "import os, sys, numpy as np, onnxruntime as ort\n"
        "options = ort.SessionOptions()\n"
        "options.intra_op_num_threads = options.inter_op_num_threads = 1\n"
        "options.register_custom_ops_library(sys.argv[2])\n"
        "run = ort.InferenceSession(sys.argv[1], options, providers=['CPUExecutionProvider'])\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "run.run(None, dict(np.load(sys.argv[3])))\n"
        "print(len(os.listdir('/proc/self/task')) - before)\n"
    )
    command = [
        sys.executable,
        "-c",
        script,
        str(tmp_path / "m.onnx"),
        str(library),
        str(tmp_path / "feeds.npz"),
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout == "0\n"


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_stay_while_threads_come_and_go(fused: Autofused, library: Path, threads: int) -> None:
    """Later runs are planned for the threads that earlier runs got; some runs get all cores again."""
    run, feed = with_library(fused, library, threads), feeds(1031, 301)
    first = run.run(None, feed)
    check(first, feed)
    for _ in range(70):
        for again, before in zip(run.run(None, feed), first, strict=True):
            np.testing.assert_array_equal(again, before)


SPINNING = "session.intra_op.allow_spinning"


def test_threads_do_not_spin_if_all_nodes_are_of_the_library(library: Path) -> None:
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(library))
    assert options.get_session_config_entry(SPINNING) == "0"


def test_the_option_about_spinning_overrides_the_default(library: Path) -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry(SPINNING, "1")
    options.register_custom_ops_library(str(library))
    assert options.get_session_config_entry(SPINNING) == "1"


def model_of_three_programs() -> onnx.ModelProto:
    """Texts, and a size that elements decide, are between them."""
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4, 8] x) => (float[m] y)'
        "{ a = Exp (x) b = Add (a, x) s = Cast <to = 8> (b) f = Cast <to = 1> (s)"
        " c = Exp (f) d = Mul (c, f) i = NonZero (d) t = Transpose (i)"
        " v = GatherND (d, t) e = Sigmoid (v) y = Mul (e, v) }"
    )


def check_three_programs(run: ort.InferenceSession) -> None:
    x = RNG.normal(size=(4, 8)).astype(np.float32)
    (given,) = run.run(None, {"x": x})
    f = np.exp(x.astype(np.float64)) + x
    d = (np.exp(f) * f).ravel()
    np.testing.assert_allclose(given, d / (1 + np.exp(-d)), rtol=1e-4)


def test_nodes_that_need_python_stay_outside_of_the_library(tmp_path: Path) -> None:
    fused = autofuse(model_of_three_programs(), Request(library=True))
    assert fused.operator_library is not None
    assert set(fused.operator_library.outside) == {"NonZero", "Cast"}
    assert len(fused.operator_library.operators) == 3
    write(fused, tmp_path / "parts.so")
    run = with_library(fused, tmp_path / "parts.so")
    with pytest.raises(Exception, match=SPINNING):  # its threads run other nodes too
        run.get_session_options().get_session_config_entry(SPINNING)
    check_three_programs(run)


SIZES = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
g (float[h, 8] x, float[w, 8] z, float[8, 8] m) => (float[r, 8] y) {
    a = Exp (x)
    b = Tanh (z)
    c = Add (a, b)
    d = MatMul (c, m)
    y = Relu (d)
}""")


def test_likely_sizes_run_as_one_program_and_others_as_several(tmp_path: Path) -> None:
    """One program adds equal numbers of rows; the other adds a single row to all rows."""
    fused = autofuse(SIZES, Request(library=True))
    assert fused.operator_library is not None
    assert fused.operator_library.likely_sizes == ["h == w"]
    assert fused.operator_library.whole
    write(fused, tmp_path / "sizes.so")
    model, weight = fused.model.with_weights(), RNG.normal(size=(8, 8)).astype(np.float32)
    again = autofuse(model, Request(redo=True)).model.with_weights()
    assert not any(node.op_type == "If" for node in again.graph.node)
    runs = [with_library(fused, tmp_path / "sizes.so"), session(model), session(again)]
    for h, w in ((3, 3), (1, 1), (0, 0), (1, 4), (4, 1), (33, 33)):
        x, z = (RNG.normal(size=(rows, 8)).astype(np.float32) for rows in (h, w))
        wanted = np.maximum((np.exp(x.astype(np.float64)) + np.tanh(z)) @ weight, 0)
        for run in runs:
            (given,) = run.run(None, {"x": x, "z": z, "m": weight})
            np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)
    for run in runs:
        with pytest.raises(Exception, match="broadcast"):
            run.run(None, {"x": x[:2], "z": z[:3], "m": weight})


def test_a_model_has_one_form_if_a_second_one_gains_nothing() -> None:
    """A single operator does not become a program, and ONNX Runtime keeps a program that would be slower."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[h] x, float[w] z) => (float[r] y) { y = Add (x, z) }"""
    library = autofuse(SIZES, Request(library=True)).operator_library
    assert library is not None
    for fused in (
        autofuse(onnx.parser.parse_model(text), Request(library=True)),
        autofuse(SIZES, Request(library=True, unserved={each.name: "slower" for each in library.operators})),
    ):
        assert fused.operator_library is not None and not fused.operator_library.likely_sizes
        assert not any(node.op_type == "If" for node in fused.model.proto.graph.node)


def test_programs_inside_of_branches_and_loops_that_stay(tmp_path: Path) -> None:
    """ONNX Runtime runs If, Loop and NonZero; the library runs the other nodes of their bodies, with
    weights.
    """
    weight = RNG.normal(size=(8, 8)).astype(np.float32)
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4, 8] x, bool c, int64 n) => (float[m] y, float[4, 8] z) <float[8, 8] w> {
            y = If (c) <
                then_branch = t () => (float[m] u) {
                    e = Exp (x) a = Add (e, x) i = NonZero (a) j = Transpose (i)
                    g0 = GatherND (a, j) s = Sigmoid (g0) u = Mul (s, g0) },
                else_branch = f () => (float[k] v) {
                    h = Tanh (x) b = Mul (h, x) i2 = NonZero (b) j2 = Transpose (i2) v = GatherND (b, j2) }>
            yes = Constant <value = bool {1}> ()
            z = Loop (n, yes, x) <body = body (int64 k, bool more, float[4, 8] before)
                    => (bool again, float[4, 8] after) {
                again = Identity (more) q = MatMul (before, w) r = Tanh (q) i3 = NonZero (r)
                size = Size (i3) number = Cast <to = 1> (size) d = Div (r, number) after = Add (d, before) }>
        }""")
    del model.graph.initializer[:]
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    fused = autofuse(model, Request(library=True))
    assert set(fused.operator_library.outside) == {"If", "Loop", "NonZero"}
    assert fused.operator_library is not None
    assert not fused.operator_library.refused
    assert not fused.operator_library.whole
    write(fused, tmp_path / "bodies.so")
    run = with_library(fused, tmp_path / "bodies.so", profile=str(tmp_path / "profile"))
    x = RNG.normal(size=(4, 8)).astype(np.float32)
    a, b, after = np.exp(x.astype(np.float64)) + x, np.tanh(x.astype(np.float64)) * x, x.astype(np.float64)
    for _ in range(3):
        after = np.tanh(after @ weight) / (2 * x.size) + after
    for choice, branch in ((True, a.ravel() / (1 + np.exp(-a.ravel()))), (False, b.ravel())):
        y, z = run.run(None, {"x": x, "c": np.array(choice), "n": np.array(3)})
        np.testing.assert_allclose(y, branch, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(z, after, rtol=1e-5)
    events = json.loads(Path(run.end_profiling()).read_text())
    executed = {event["args"]["op_name"] for event in events if event.get("cat") == "Node"}
    assert executed >= {each.name for each in fused.operator_library.operators}


def test_each_program_is_measured_in_its_place() -> None:
    """The command prints a ratio for each program; its value depends on the machine."""
    fused = autofuse(model_of_three_programs(), Request(library=True))
    assert fused.operator_library is not None
    x = RNG.normal(size=(4, 8)).astype(np.float32)
    ratios = measure_programs(fused.model, fused.operator_library, {"x": x}, 1, rounds=2, round_seconds=1e-3)
    assert set(ratios) == {each.name for each in fused.operator_library.operators}
    assert all(0 < found.low <= found.median <= found.high for found in ratios.values())


def test_programs_that_are_slower_in_most_rounds_are_left() -> None:
    ratios = {"slow": Ratio(1.3, 1.1, 1.5), "even": Ratio(1.02, 0.98, 1.1), "fast": Ratio(0.4, 0.3, 0.5)}
    assert slower_programs(ratios) == {
        "slow": "the model takes 1.30 (1.10 to 1.50) of the time with the program"
    }


def test_the_command_leaves_what_is_slower_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(model: OnnxModel, library: Library, *rest: object) -> dict[str, Ratio]:
        slow, *others = (each.name for each in library.operators)
        return {slow: Ratio(1.3, 1.1, 1.5), **dict.fromkeys(others, Ratio(0.4, 0.3, 0.5))}

    monkeypatch.setattr(graph_autofusion, "measure_programs", measured)
    path, target = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(model_of_three_programs(), path)
    done = CliRunner().invoke(app, ["-i", str(path), "-o", str(target), "--measure"])
    assert done.exit_code == 0, done.output
    assert "runs 2 of 3 programs" in done.stdout
    shown = " ".join(done.stdout.split())
    assert "ONNX Runtime: the model takes 1.30 (1.10 to 1.50) of the time with the program" in shown
    assert "the library: the model takes 0.40 (0.30 to 0.50) of the time with it" in shown
    check_three_programs(with_library(target, tmp_path / "out.onnx.so"))


def test_a_library_that_was_cut_short_is_an_error(fused: Autofused, library: Path, tmp_path: Path) -> None:
    content = library.read_bytes()
    for size in (len(content) - 1, len(content) - 40, len(content) // 2):
        (tmp_path / f"cut{size}.so").write_bytes(content[:size])
        with pytest.raises(Exception, match="damaged"):
            with_library(fused, tmp_path / f"cut{size}.so")


def test_a_missing_compiler_is_one_error_and_leaves_no_file(tmp_path: Path) -> None:
    options = Options(cc=str(tmp_path / "no-compiler"), cache_dir=tmp_path)
    with pytest.raises(ToolchainError, match="no C compiler"):
        autofuse(MODEL, Request(library=True), options=options)


def test_only_the_source_named_in_the_error_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch, compiler = tmp_path / "scratch", tmp_path / "cc"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo fake && exit\nsleep 0.5; exit 1\n')
    compiler.chmod(0o700)
    with pytest.raises(ToolchainError, match="rejected the source") as caught:
        autofuse(MODEL, Request(library=True), options=Options(cc=str(compiler), cache_dir=tmp_path))
    assert list(scratch.iterdir()) == [Path(caught.value.diagnostics[0].where).parent]


def test_the_command_writes_the_library_and_says_what_it_serves(tmp_path: Path) -> None:
    """Weights are stored next to the model; ONNX Runtime maps them but does not read them. --isa compiles for
    one ISA.
    """
    path, target = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(MODEL, path)
    done = CliRunner().invoke(app, ["-i", str(path), "-o", str(target), "--library", "--isa", "v3"])
    assert done.exit_code == 0, done.output
    assert "runs 1 of 1 programs" in done.stdout
    assert (tmp_path / "out.onnx.data").is_file()
    feed = feeds(3, 5)
    check(with_library(target, tmp_path / "out.onnx.so").run(None, feed), feed)


@pytest.mark.parametrize(
    "library", [["--library"], ["--emit-sources", "c"], ["--weights", "packed"], ["--measure"]]
)
def test_library_and_inline_cannot_be_combined(library: list[str], tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(MODEL, path)
    done = CliRunner().invoke(app, ["-i", str(path), "-o", str(tmp_path / "out.onnx"), "--inline", *library])
    assert done.exit_code == 2 and "--inline" in done.output
    assert list(tmp_path.iterdir()) == [path]


def test_packed_weights_are_in_the_library_alone(tmp_path: Path) -> None:
    path, target = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(MODEL, path)
    arguments = ["-i", str(path), "-o", str(target), "--isa", "v3", "--weights", "packed"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.onnx", "out.onnx", "out.onnx.so"]
    model = onnx.load(target)
    onnx.checker.check_model(model)
    assert not model.functions and not model.graph.initializer
    feed = feeds(3, 5)
    check(with_library(target, tmp_path / "out.onnx.so").run(None, feed), feed)


def test_weights_that_other_nodes_read_stay(tmp_path: Path) -> None:
    path, target = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(model_of_three_programs(), path)
    arguments = ["-i", str(path), "-o", str(target), "--isa", "v3", "--weights", "packed", "--library"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "ONNX Runtime runs parts of the model, such as Cast" in done.output
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.onnx"]


@pytest.mark.parametrize("taken", ["out.onnx.so", "out.onnx.data"])
def test_all_files_are_written_or_none(tmp_path: Path, taken: str) -> None:
    """A folder exists at the path of one of the files."""
    path, target, folder = tmp_path / "m.onnx", tmp_path / "out.onnx", tmp_path / "c"
    onnx.save(MODEL, path)
    (tmp_path / taken).mkdir()
    arguments = [
        "-i",
        str(path),
        "-o",
        str(target),
        "--library",
        "--isa",
        "v3",
        "--emit-sources",
        str(folder),
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert f"{tmp_path / taken}: Is a directory" in done.output.replace("\n", "")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.onnx", taken]


def test_a_fused_model_with_programs_is_fused_again(fused: Autofused) -> None:
    """Functions that call functions are inlined."""
    again = autofuse(fused.model.with_weights(), Request(redo=True))
    feed = feeds(4, 9)
    check(session(again.model.with_weights()).run(None, feed), feed)


def test_the_sources_of_the_library_build_it(tmp_path: Path) -> None:
    path, target, folder = tmp_path / "m.onnx", tmp_path / "out.onnx", tmp_path / "c"
    onnx.save(MODEL, path)
    arguments = ["-i", str(path), "-o", str(target), "--emit-sources", str(folder)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert f"sh {folder}/build.sh builds the library" in done.output.replace("\n", "")
    assert not list(folder.glob("*/generated*.so"))
    names = {each.stem for each in (folder / "kernels").glob("*.c")}
    assert {name.rpartition("_")[2] for name in names} == set(ISAS)
    assert any("softmax" in name for name in names)
    subprocess.run(["sh", str(folder / "kernels" / "build.sh")], check=True, timeout=300)
    subprocess.run(["sh", str(folder / "build.sh")], check=True, timeout=120)
    feed = feeds(3, 5)
    check(with_library(target, folder / "library.so").run(None, feed), feed)


@pytest.mark.parametrize("compiler", [["gcc"], ["clang"], [sys.executable, "-m", "ziglang", "cc"]])
def test_the_adapter_compiles_without_warnings(compiler: list[str], tmp_path: Path) -> None:
    package = Path(sys.modules["graphwright.autofusion.autofuse"].__file__ or "").parents[1]
    units = sorted((package / "autofusion" / "onnxruntime").glob("*.c"))
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-D_GNU_SOURCE", "-c"]
    folders = ["-I", str(package / "runtime" / "native")]
    try:
        done = subprocess.run(
            [*compiler, *flags, *folders, *map(str, units)], cwd=tmp_path, capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip(f"no {compiler[0]}")
    assert done.returncode == 0, done.stderr


def test_branches_in_a_program_keep_their_weights(tmp_path: Path) -> None:
    """A function does not see initializers of the model, so a branch has its weight with and without the
    library.
    """
    weight = np.arange(6, dtype=np.float32)
    branches = [
        onnx.helper.make_graph(
            [
                onnx.helper.make_node("Constant", [], [f"w{k}"], value=numpy_helper.from_array(weight + k)),
                onnx.helper.make_node("Mul", ["x", f"w{k}"], [f"y{k}"]),
            ],
            f"branch{k}",
            [],
            [onnx.helper.make_tensor_value_info(f"y{k}", onnx.TensorProto.FLOAT, [6])],
        )
        for k in (0, 1)
    ]
    nodes = [
        onnx.helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        onnx.helper.make_node("Cast", ["s"], ["c"], to=onnx.TensorProto.BOOL),
        onnx.helper.make_node("If", ["c"], ["m"], then_branch=branches[0], else_branch=branches[1]),
        onnx.helper.make_node("Exp", ["m"], ["y"]),
    ]
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [6]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    fused = autofuse(model, Request(library=True))
    assert fused.operator_library is not None
    assert len(fused.operator_library.operators) == 1
    write(fused, tmp_path / "branches.so")
    for run in (
        session(fused.model.with_weights()),
        with_library(fused, tmp_path / "branches.so"),
    ):
        for x, added in ((np.full(6, 0.5, np.float32), 0), (np.zeros(6, np.float32), 1)):
            np.testing.assert_allclose(run.run(None, {"x": x})[0], np.exp(x * (weight + added)), rtol=1e-5)
