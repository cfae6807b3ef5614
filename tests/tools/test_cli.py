"""The command line, command by command: output, written files, exit codes, and no leftover files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.package import read_archive
from graphwright.tools.cli import COMMANDS
from tests.isas import compiling_on
from tests.onnx_models import model_proto, onnx_model
from tests.package.models import rank_by_size

from .support import expected, graphwright, write_model

# -- compile ----------------------------------------------------------------------------------------------


def test_compile_writes_a_package_that_runs_every_size(model: Path) -> None:
    result = graphwright("compile", model, "-o", "out.om")
    assert result.exit_code == 0 and "wrote out.om" in result.stderr and result.stdout == ""
    loaded = gw.load("out.om")
    for rows in (1, 7, 64):
        x = np.random.default_rng(rows).standard_normal((rows, 4), np.float32)
        np.testing.assert_allclose(loaded.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-6)


def test_compile_takes_its_name_from_the_model(model: Path) -> None:
    assert graphwright("compile", model).exit_code == 0
    assert Path("model.om").is_file()


def test_compile_binds_shapes_constants_and_outputs(model: Path) -> None:
    assert graphwright("compile", model, "-o", "a.om", "--shape", "x:2,4", "--outputs", "h").exit_code == 0
    loaded = gw.load("a.om")
    assert loaded.inputs[0].shape == (2, 4) and [output.name for output in loaded.outputs] == ["h"]
    np.save("x.npy", np.ones((3, 4), np.float32))
    assert graphwright("compile", model, "-o", "b.om", "--const", "x=x.npy").exit_code == 0
    assert gw.load("b.om").inputs == ()


def test_compile_prints_graphs_and_times(model: Path) -> None:
    result = graphwright("compile", model, "--print-after", "fuse", "--time-passes")
    assert result.exit_code == 0
    assert result.stdout.count("// after ") == 1 and "Fused" in result.stdout
    assert all(stage in result.stdout for stage in ("import", "fuse", "lower", "kernels"))
    everything = graphwright("compile", model, "--print-after-all").stdout
    assert everything.count("// after ") > 10


def test_a_pass_that_does_not_exist_is_mentioned(model: Path) -> None:
    assert "no pass 'fues' ran" in graphwright("compile", model, "--print-after", "fues").stderr


# -- run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_run_reads_and_writes_arrays(model: Path, packed: bool) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.save("x.npy", x)
    np.savez("all.npz", x=x)
    source = model
    if packed:
        graphwright("compile", model, "-o", "m.om")
        source = Path("m.om")
    assert graphwright("run", source, "-i", "x=x.npy", "-o", "y.npy").exit_code == 0
    np.testing.assert_allclose(np.load("y.npy"), expected(x), rtol=1e-6)
    assert graphwright("run", source, "-i", "all.npz", "-o", "y.npz").exit_code == 0
    np.testing.assert_allclose(np.load("y.npz")["y"], expected(x), rtol=1e-6)
    assert graphwright("run", source, "-i", f"x={x.tolist()}", "-o", "z.npy").exit_code == 0
    np.testing.assert_allclose(np.load("z.npy"), expected(x), rtol=1e-6)


def test_random_inputs_follow_their_seed(model: Path) -> None:
    for seed, name in ((1, "a"), (1, "b"), (2, "c")):
        done = graphwright("run", model, "--shape", "x:5,4", "--seed", seed, "-o", f"{name}.npy")
        assert done.exit_code == 0 and "float32[5, 3]" in done.stdout
    a, b, c = (np.load(f"{name}.npy") for name in "abc")
    assert (a == b).all() and (a != c).any()


def test_run_asks_for_sizes_that_nothing_says(model: Path) -> None:
    result = graphwright("run", model)
    assert result.exit_code == 1
    assert "[N, 4]" in result.stderr and "--shape x:1,4" in result.stderr


# -- inspect ----------------------------------------------------------------------------------------------


def test_inspect_shows_everything(model: Path) -> None:
    graphwright("compile", model, "-o", "m.om")
    shown = graphwright("inspect", "m.om", "--shape", "x:6,4", "--verify").stdout
    for text in ("trusted", "verified", "f32[N, 4]", "MatMul", "Relu", "weights:", "tasks for", "arena"):
        assert text in shown, text


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_inspect_rejects_sizes_that_conflict_with_the_inputs(model: Path, flags: tuple[str, ...]) -> None:
    assert graphwright("compile", model, "-o", "m.om").exit_code == 0
    result = graphwright("inspect", "m.om", "--shape", "x:2,5", *flags)
    assert result.exit_code == 1 and "axis 1 of 'x' must be 4, but is 5" in result.stderr


def test_each_ir_can_be_printed(model: Path) -> None:
    graphwright("compile", model, "-o", "m.om")
    high, mid, low = (
        graphwright("inspect", "m.om", "--ir", level).stdout for level in ("high", "mid", "low")
    )
    assert "Fused" not in high and "Relu" in high and high.startswith("module {")
    assert "Fused" in mid
    assert "entry {" in low and "launch gw_gemm_f32" in low and "max(" in low


def test_inspect_finds_damage(model: Path) -> None:
    graphwright("compile", model, "-o", "m.om")
    data = bytearray(Path("m.om").read_bytes())
    at = data.index(b"graph.txt") + 200
    data[at] ^= 1
    Path("m.om").write_bytes(data)
    result = graphwright("inspect", "m.om", "--verify")
    assert result.exit_code == 1 and "[damaged-package]" in result.stderr


# -- check ------------------------------------------------------------------------------------------------


def test_check_passes_and_shows_the_peer(model: Path) -> None:
    result = graphwright("check", model, "--shape", "x:9,4", "--tolerance", "1e-6")
    assert result.exit_code == 0 and "onnxruntime error" in result.stdout
    graphwright("compile", model, "-o", "m.om")
    assert graphwright("check", "m.om", "--shape", "x:9,4").exit_code == 0
    assert "onnxruntime" in graphwright("check", "m.om", "--onnx", model, "--shape", "x:9,4").stdout


def test_check_fails_beyond_the_tolerance(model: Path) -> None:
    result = graphwright("check", model, "--shape", "x:9,4", "--tolerance", "0")
    assert result.exit_code == 1 and "[tolerance]" in result.stderr


def test_nodes_that_draw_random_numbers_are_named(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g () => (float[3, 4] y) {
        [noise] a = RandomNormal <shape = [3, 4]> ()
        y = Relu (a)
    }"""
    path = tmp_path / "random.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    for command in (("check",), ("debug", "bisect")):
        refused = graphwright(*command, path)
        assert refused.exit_code == 1
        assert "each run draws other random numbers: noise; give" in " ".join(refused.stderr.split())


def test_check_compares_shapes(model: Path) -> None:
    graphwright("compile", model, "-o", "m.om")
    other = onnx.load(model)
    other.graph.node[1].op_type = "Flatten"
    other.graph.node[1].attribute.append(helper.make_attribute("axis", 0))
    other.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(other, "flat.onnx")
    result = graphwright("check", "m.om", "--onnx", "flat.onnx", "--shape", "x:9,4")
    assert result.exit_code == 1
    assert "output 'y' has shape (9, 3), the original's has (1, 27) [shape]" in result.stderr


# -- bench ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "limit"), [("float16", "0.0078125"), ("float32", "0.0001")])
def test_tolerance_of_check_is_that_of_the_floats_of_the_model(dtype: str, limit: str) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = {"w": np.random.default_rng(0).normal(size=(64, 64)).astype(dtype)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
    info = element, [3, 64]
    onnx.save(model_proto(nodes, {"x": info}, {"y": info}, weights), "t.onnx")
    result = graphwright("check", "t.onnx")
    assert result.exit_code == 0 and f"within {limit}" in result.stdout


def test_bench_measures_side_by_side(model: Path) -> None:
    arguments = ("--shape", "x:8,4", "--threads", "1", "--rounds", "3", "--round-seconds", "0.002")
    result = graphwright(
        "bench", model, *arguments, "--against", "onnxruntime", "--json", "b.json", "--per-task"
    )
    assert result.exit_code == 0, result.stderr
    assert "onnxruntime / graphwright:" in result.stdout and "gw_gemm_f32" in result.stdout
    made = json.loads(Path("b.json").read_text())
    assert made["machine"]["cpu"] and made["versions"]["onnxruntime"] and made["threads"] == 1
    for engine in made["engines"].values():
        assert len(engine["rounds_ns"]) == 3
        assert 0 < engine["min_ns"] <= engine["median_ns"] <= engine["p95_ns"]
        assert engine["runs_per_second"] == pytest.approx(1e9 / engine["median_ns"])
    assert made["ratios"]["onnxruntime"]["low"] <= made["ratios"]["onnxruntime"]["median"]


def test_bench_rejects_peers_of_packages(model: Path) -> None:
    graphwright("compile", model, "-o", "m.om")
    assert graphwright("bench", "m.om", "--against", "onnxruntime").exit_code == 2
    assert graphwright("bench", model, "--against", "tensorflow").exit_code == 2
    both = graphwright("bench", model, "--against", "tensorflow", "--against", "onnxruntime")
    assert both.exit_code == 2 and "'tensorflow' is not one of" in both.stderr


# -- cache ------------------------------------------------------------------------------------------------


def test_cache_explains_and_clears(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx", op="Tanh")  # no library kernel does it in its store
    folder = ("--cache-dir", tmp_path / "own")
    assert "entries  0" in graphwright("cache", "stats", *folder).stdout
    explain = ("cache", "explain", model, *folder)
    with compiling_on("v4"):
        assert "the cache is empty" in graphwright(*explain).stdout
        assert "not a miss" in graphwright(*explain).stdout
        assert "differs in source, isa" in graphwright(*explain, "--isa", "v3").stdout
    assert "one target at a time" in graphwright(*explain, "--targets", "v3,v4").stderr
    assert "dropped 2 entries" in graphwright("cache", "clear", *folder).stdout
    assert "entries  0" in graphwright("cache", "stats", *folder).stdout


# -- the whole --------------------------------------------------------------------------------------------


def test_help_has_examples_and_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 80 columns, no text is cut, and no example is wrapped."""
    assert all(command in graphwright("--help").stdout for command in COMMANDS)
    for command in COMMANDS:
        monkeypatch.setenv("COLUMNS", "200")
        wide = graphwright(command, "--help").stdout.splitlines()
        monkeypatch.setenv("COLUMNS", "80")
        shown = graphwright(command, "--help").stdout
        assert "Example" in shown and f"graphwright {command}" in shown
        examples = [line.strip() for line in wide if line.startswith("   graphwright")]
        assert "…" not in shown and all(example in shown for example in examples), command
    assert graphwright("--version").stdout.strip()


def test_help_breaks_lines_only_at_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = graphwright("run", "--help").stdout.splitlines()
    assert any("0 and 1 for integers. The same --seed gives the same inputs." in line for line in shown)


def test_help_names_the_kind_of_an_options_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = graphwright("run", "--help").stdout.splitlines()
    kinds = {"--threads": "NUMBER", "--cache-dir": "FOLDER", "--memory-budget": "BYTES", "--isa": "VALUE"}
    for flag, kind in kinds.items():
        (line,) = [line for line in lines if f" {flag} " in line]
        assert line.split()[2] == kind, line


@pytest.mark.parametrize("command", [*COMMANDS, "debug bisect", "cache list", ""])
def test_help_shows_no_value_for_flags_that_take_none(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = graphwright(*command.split(), "--help").stdout
    (line,) = [line for line in shown.splitlines() if "--help " in line]
    assert line.split()[1:5] == ["--help", "-h", "Show", "this"], line
    assert "<bool>" not in shown and not re.search(r"-v +<int>", shown)


def test_ranges_are_kept_shown_and_checked(model: Path) -> None:
    assert graphwright("compile", model, "-o", "ranged.om", "--shape", "x:N=2..16%2,4").exit_code == 0
    shown = graphwright("inspect", "ranged.om")
    assert "2*N_2  2 to 16 in steps of 2" in shown.stdout, shown.stdout
    assert "x: [2, 4]" in shown.stdout and "x: [16, 4]" in shown.stdout, "the ends of its memory"
    assert graphwright("run", "ranged.om", "--shape", "x:6,4").exit_code == 0
    refused = graphwright("run", "ranged.om", "--shape", "x:7,4")
    assert refused.exit_code == 1
    assert "axis 0 of 'x' must be 2 to 16 in steps of 2, but is 7" in refused.stderr
    assert graphwright("run", model, "--shape", "x:N=2..16%2,4").exit_code == 0, "on the smallest size"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nothing",),
        ("compile",),
        ("compile", "model.onnx", "--nothing"),
        ("compile", "model.onnx", "--shape", "x"),
        ("compile", "model.onnx", "--shape", "x:-1,4"),
        ("compile", "model.onnx", "--const", "x"),
        ("compile", "model.onnx", "--outputs", "y,"),
        ("compile", "model.onnx", "--isa", "v9"),
        ("compile", "model.onnx", "--threads", "many"),
        ("compile", "model.onnx", "-o", "nowhere/model.om"),
        ("compile", "model.onnx", "-o", "."),
        ("run", "model.onnx", "-o", "y.txt"),
        ("run", "model.onnx", "-i", "x=1.5.5"),
        ("compile", "model.onnx", "--shape", "x:4..1,4"),
        ("compile", "model.onnx", "--shape", "x:1..4%0,4"),
        ("compile", "model.onnx", "--shape", "x:N=,4"),
        ("compile", "model.onnx", "--plan-cache", "0"),
        ("compile", "model.onnx", "--specialize", "warm"),
    ],
)
def test_misuse_exits_with_2_and_leaves_nothing(model: Path, arguments: tuple[str, ...]) -> None:
    before = set(Path().iterdir())
    assert graphwright(*arguments).exit_code == 2
    assert set(Path().iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("compile", "absent.onnx"), "file"),
        (("run", "absent.om"), "file"),
        (("compile", "text.onnx"), "file"),
        (("inspect", "zip.om"), "damaged-package"),
        (("compile", "model.onnx", "--shape", "z:1"), "input-name"),
        (("compile", "model.onnx", "--shape", "x:1,5"), "input-size"),
        (("compile", "model.onnx", "--shape", "x:1..4,1..5"), "input-size"),
        (("compile", "model.onnx", "--outputs", "z"), "output-name"),
        (("run", "model.onnx", "-i", "x=absent.npy"), "array-file"),
        (("run", "model.onnx", "-i", "z=1"), "feed-name"),
        (("run", "model.onnx", "-i", "x=[[1, 2], [3]]"), "feed-dtype"),
        (("check", "model.onnx", "--shape", "x:1,4", "-i", "text.npz"), "array-file"),
    ],
)
def test_faults_are_diagnostics_and_exit_with_1(model: Path, arguments: tuple[str, ...], code: str) -> None:
    for name in ("text.onnx", "text.npz"):
        Path(name).write_text("no model")
    Path("zip.om").write_bytes(b"PK\x03\x04" + bytes(100))
    before = set(Path().iterdir())
    result = graphwright(*arguments)
    assert result.exit_code == 1 and f"[{code}]" in result.stderr and "Traceback" not in result.stderr
    assert set(Path().iterdir()) == before


def test_all_unsupported_ops_are_listed(tmp_path: Path) -> None:
    nodes = [helper.make_node(op, ["x"], [op], domain="odd") for op in ("First", "Second")]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", "First", "Second")]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("odd", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), "odd.onnx")
    result = graphwright("compile", "odd.onnx")
    assert result.exit_code == 1 and "First" in result.stderr and "Second" in result.stderr


def test_an_interrupt_leaves_no_file(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(read_archive.os, "replace", interrupt)
    before = set(Path().iterdir())
    assert graphwright("compile", model, "-o", "m.om").exit_code == 130
    assert set(Path().iterdir()) == before


def test_the_command_runs_as_a_module_whose_output_is_closed_early(model: Path) -> None:
    command = f"{sys.executable} -m graphwright compile model.onnx --print-after-all | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("// after import") and "Traceback" not in done.stderr


def test_a_model_whose_sizes_decide_ranks_is_cut() -> None:
    Path("s.onnx").write_bytes(rank_by_size())
    assert "; 2 subgraphs, 1 node run in Python" in graphwright("compile", "s.onnx", "-o", "s.om").stderr
    assert graphwright("run", "s.om", "-i", "x=[[-1, 2]]", "-o", "y.npy").exit_code == 0
    assert np.load("y.npy").tolist() == [-1, 2]
    shown = graphwright("inspect", "s.om").stdout
    assert "host program: 2 subgraphs, 1 node run in Python" in shown
    assert "the rank of its result is data-dependent" in shown
    assert re.search(r"^  trusted +yes$", shown, re.MULTILINE)
    low = graphwright("inspect", "s.om", "--ir", "low").stdout
    assert "// program 0" in low and "// program 1" in low
    assert "run in Python" not in graphwright("compile", "s.onnx", "--shape", "x:1,2").stderr


def test_texts_come_as_json_and_go_into_files() -> None:
    nodes = [helper.make_node("StringConcat", ["x", "x"], ["y"])]
    info = TensorProto.STRING, ["N"]
    onnx.save(model_proto(nodes, {"x": info}, {"y": info}, opset=20), "t.onnx")
    assert graphwright("run", "t.onnx", "-i", 'x=["a", "bc"]', "-o", "y.npz").exit_code == 0
    assert np.load("y.npz")["y"].tolist() == ["aa", "bcbc"]
    np.savez("x.npz", x=np.array(["d"]))
    assert graphwright("run", "t.onnx", "-i", "x.npz", "-o", "y.npy").exit_code == 0
    assert np.load("y.npy").tolist() == ["dd"]
    checked = graphwright("check", "t.onnx", "--shape", "x:3")
    assert checked.exit_code == 0 and "0.00e+00" in checked.stdout


def test_a_model_of_unknown_rank_is_compiled_for_each() -> None:
    ports = {"x": (TensorProto.FLOAT, None)}, {"y": (TensorProto.FLOAT, None)}
    Path("r.onnx").write_bytes(onnx_model([helper.make_node("Relu", ["x"], ["y"])], *ports))
    assert "programs for 6 ranks" in graphwright("compile", "r.onnx", "-o", "r.om").stderr
    assert "program for x f32[x_0, x_1]" in graphwright("inspect", "r.om").stdout
    assert graphwright("inspect", "r.om", "--measure", "--shape", "x:2").exit_code == 0
    assert graphwright("run", "r.om", "-i", "x=[[-1, 2]]", "-o", "y.npy").exit_code == 0
    assert np.load("y.npy").tolist() == [[0, 2]]
    assert graphwright("run", "r.om").exit_code == 1
    assert "float32[2, 3]" in graphwright("run", "r.om", "--shape", "x:2,3").stdout
    assert "tasks for" in graphwright("inspect", "r.om", "--shape", "x:2,3").stdout


def test_packages_of_others_are_compiled_again(model: Path, tmp_path: Path) -> None:
    graphwright("compile", model, "-o", "m.om", "--key-dir", tmp_path / "other")
    assert "no: its graph" in graphwright("inspect", "m.om").stdout
    assert re.search(r"^  trusted +yes$", graphwright("inspect", "m.om", "--trust").stdout, re.MULTILINE)
    assert graphwright("run", "m.om", "--shape", "x:1,4").exit_code == 0


def test_models_are_distinguished_by_content(model: Path) -> None:
    write_model(Path("model.om"))
    assert graphwright("run", "model.om", "--shape", "x:1,4").exit_code == 0


def test_constants_come_from_archives_as_well(model: Path) -> None:
    x = np.full((3, 4), 0.5, np.float32)
    np.savez("both.npz", x=x, more=x)
    np.savez("one.npz", anything=x)
    for given in ("x=both.npz", "x=one.npz", f"x={x.tolist()}"):
        assert graphwright("compile", model, "-o", "m.om", "--const", given).exit_code == 0
        np.testing.assert_allclose(gw.load("m.om").run({})["y"], expected(x), rtol=1e-6)
    np.savez("x.npz", x=x)
    assert graphwright("compile", model, "-o", "m.om", "--const", "x.npz").exit_code == 0
    assert gw.load("m.om").inputs == ()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--const", "z=1"), 1, "the inputs are: x [N, 4]"),
        (("--const", "both.npz"), 1, "not an input: 'more'"),
        (("--const", "z=both.npz"), 1, "has no array 'z', only 'x', 'more'"),
        (("--const", "x=1.5"), 1, "the constant has type f32[], but the input has type f32[N, 4]"),
        (("--const", "x=[[1,2,3]]"), 1, "the constant has type f32[1, 3], but the input has type f32[1, 4]"),
        (("--const", "x=1", "--const", "x=2"), 2, "given twice"),
        (("--const", "x=word"), 2, "is not a .npy file, a number or a JSON list"),
        (("--outputs", "hh"), 1, "did you mean 'h'?"),
        (("--outputs", "h,h"), 1, "output 'h' is given 2 times"),
    ],
)
def test_constants_and_outputs_that_do_not_fit(
    model: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    np.savez("both.npz", x=np.ones((3, 4), np.float32), more=np.ones(1, np.float32))
    result = graphwright("compile", model, "-o", "m.om", *arguments)
    assert result.exit_code == status
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert not Path("m.om").exists()


def test_a_package_is_not_compiled_for_other_sizes(model: Path) -> None:
    assert graphwright("compile", model, "-o", "m.om").exit_code == 0
    made = graphwright("compile", "m.om", "-o", "n.om", "--shape", "x:2,4")
    assert made.exit_code == 2 and "a package keeps the sizes" in " ".join(made.stderr.split())
    assert not Path("n.om").exists()
    assert graphwright("compile", "m.om", "-o", "n.om").exit_code == 0
