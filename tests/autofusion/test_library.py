"""The library of custom operators, registered with the ONNX Runtime that is installed: its numbers in the
table of functions, its results at open sizes, and what it refuses.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from typer.testing import CliRunner

from graphwright.autofusion.autofuse import Autofused, autofuse
from graphwright.config import Options
from graphwright.errors import ToolchainError
from graphwright.tools.autofusion import app
from tests.export.peers import session

RNG = np.random.default_rng(0)
TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, k] x, float[n, k] z, int64[k] steps) => (float[n, k] y, int64[k] counts, double[n] means) {
    a = Sigmoid (x)
    b = Mul (a, z)
    c = Tanh (b)
    d = Add (c, x)
    y = Softmax <axis = -1> (d)
    e = Mul (steps, steps)
    counts = Sub (e, steps)
    f = Cast <to = 11> (z)
    g2 = Mul (f, f)
    means = ReduceMean <axes = [1], keepdims = 0> (g2)
}"""


@pytest.fixture(scope="module")
def fused() -> Autofused:
    return autofuse(onnx.parser.parse_model(TEXT), library=True)


@pytest.fixture(scope="module")
def library(fused: Autofused, tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert fused.library is not None
    path = tmp_path_factory.mktemp("library") / "fused.so"
    path.write_bytes(fused.library.build())
    return path


def with_library(
    fused: Autofused, library: Path, threads: int = 1, profile: str = ""
) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    options.register_custom_ops_library(str(library))
    content = fused.model.with_weights().SerializeToString()
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def feeds(n: int, k: int) -> dict[str, np.ndarray]:
    x, z = (RNG.normal(size=(n, k)).astype(np.float32) for _ in range(2))
    return {"x": x, "z": z, "steps": RNG.integers(-9, 9, k)}


def test_every_region_of_loops_is_served(fused: Autofused) -> None:
    assert fused.library is not None
    assert fused.library.refused == {}
    assert len(fused.library.served) == len(fused.model.proto.functions) == 3


def test_the_kernels_of_the_library_are_taken(fused: Autofused, library: Path, tmp_path: Path) -> None:
    run = with_library(fused, library, profile=str(tmp_path / "profile"))
    run.run(None, feeds(3, 5))
    events = json.loads(Path(run.end_profiling()).read_text())
    executed = {event["args"]["op_name"] for event in events if event.get("cat") == "Node"}
    assert {region.name for region in fused.library.served} <= executed  # type: ignore[union-attr]


@pytest.mark.parametrize("shape", [(1, 1), (2, 7), (0, 5), (13, 33), (5, 64), (700, 301)])
@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_those_of_the_source(
    fused: Autofused, library: Path, shape: tuple[int, int], threads: int
) -> None:
    """Also in ONNX Runtime's threads: the largest is divided."""
    feed = feeds(*shape)
    given = with_library(fused, library, threads).run(None, feed)
    wanted = session(onnx.parser.parse_model(TEXT)).run(None, feed)
    for ours, theirs in zip(given, wanted, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_model_runs_without_the_library_as_well(fused: Autofused) -> None:
    feed = feeds(4, 9)
    given = session(fused.model.with_weights()).run(None, feed)
    wanted = session(onnx.parser.parse_model(TEXT)).run(None, feed)
    for ours, theirs in zip(given, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_operands_of_other_sizes_are_refused(fused: Autofused, library: Path) -> None:
    """x and z have one size n: a kernel would read beyond the smaller one."""
    feed = feeds(4, 9)
    feed["z"] = feed["z"][:2]
    with pytest.raises(Exception, match="other sizes than its kernel was made for"):
        with_library(fused, library).run(None, feed)


def test_a_missing_compiler_is_one_error_and_leaves_no_file(tmp_path: Path) -> None:
    made = autofuse(
        onnx.parser.parse_model(TEXT), library=True, options=Options(cc=str(tmp_path / "no-compiler"))
    )
    assert made.library is not None
    with pytest.raises(ToolchainError, match="no C compiler"):
        made.library.build()


def test_the_command_writes_the_library_and_says_what_it_serves(tmp_path: Path) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), source)
    done = CliRunner().invoke(app, ["-i", str(source), "-o", str(target), "--library"])
    assert done.exit_code == 0, done.output
    assert "serves 3 of 3 functions" in done.stdout
    assert (tmp_path / "out.onnx.so").is_file()
    assert CliRunner().invoke(app, ["-i", str(source), "--library", "--inline"]).exit_code == 2


def test_the_sources_of_the_library_build_it(tmp_path: Path) -> None:
    source, target, folder = tmp_path / "m.onnx", tmp_path / "out.onnx", tmp_path / "c"
    onnx.save(onnx.parser.parse_model(TEXT), source)
    arguments = ["-i", str(source), "-o", str(target), "--library", "--emit-sources", str(folder)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    names = {path.name for path in folder.iterdir()}
    assert names == {"kernels_v3.c", "kernels_v4.c", "adapter.c", "build.sh"}
    subprocess.run(["sh", str(folder / "build.sh")], check=True, timeout=120)
    (function, *_) = onnx.load(target).functions
    assert f"int32_t {function.name}_v4(" in (folder / "kernels_v4.c").read_text()
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(folder / "library.so"))
    feed = feeds(3, 5)
    given = ort.InferenceSession(str(target), options).run(None, feed)
    wanted = session(onnx.parser.parse_model(TEXT)).run(None, feed)
    for ours, theirs in zip(given, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
