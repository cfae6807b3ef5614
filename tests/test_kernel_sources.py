"""Generated kernels as C files: that they build, check themselves, and compute what NumPy does."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphwright as gw
from graphwright.errors import OptionError
from graphwright.support.whole_folder import new_folder_fault, write_folder
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.toolchain import CODE_FLAGS
from tests.tools.support import HOSTILE, graphwright, write_model

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 24] x, float[24, 40] w, float[40] b) => (float[n, 40] y, float[n, 24] z, float[n, 24] s) {
    m = MatMul (x, w)
    a = Add (m, b)
    y = HardSwish (a)
    c = Sigmoid (x)
    z = Mul (c, x)
    s = Softmax <axis = -1> (x)
}"""
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def model() -> gw.Model:
    return gw.compile(onnx.parser.parse_model(TEXT), options=gw.CompileOptions(isa="v3"))


@pytest.fixture(scope="module")
def folder(model: gw.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sources") / "kernels"
    gw.emit_sources(model, path)
    return path


def source(folder: Path, part: str) -> Path:
    (found,) = (path for path in folder.glob("*.c") if part in path.name)
    return found


def built(path: Path, *flags: str) -> Path:
    target = path.with_suffix(".out")
    command = ["cc", *ISAS["v3"].flags, *CODE_FLAGS, "-Wall", "-Wextra", "-Werror", *flags]
    subprocess.run([*command, str(path), "-lm", "-o", str(target)], check=True, timeout=120)
    return target


def test_each_kernel_is_a_file_named_for_what_it_does(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        "build.sh",
        "linear_hardswish_hook_0.c",
        "sigmoid_mul_1.c",
        "softmax_2.c",
    ]


def test_a_file_says_where_its_kernel_comes_from(folder: Path) -> None:
    text = source(folder, "sigmoid_mul").read_text()
    head = text[: text.index("*/")]
    assert "Sigmoid:c + Mul:z" in head
    assert "kernel sigmoid_mul_1(x: f32[" in head
    assert "-DGRAPHWRIGHT_MAIN sigmoid_mul_1.c" in head


def test_the_script_builds_and_runs_all(folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", str(folder / "build.sh")], check=True, timeout=120, capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == sorted(
        path.stem for path in folder.glob("*.c")
    )


def test_kernels_of_all_translation_units_are_written(tmp_path: Path) -> None:
    count = 24
    b = gw.GraphBuilder()
    for k in range(count):
        b.output(f"y{k}", b.softmax(b.mul(b.input(f"x{k}", np.float32, (f"N{k}", 7 + k)), 1.5 + k)))
    gw.emit_sources(b.compile(options=gw.CompileOptions(isa="v3")), tmp_path / "kernels")
    assert len(list((tmp_path / "kernels").glob("*.c"))) == count


@pytest.mark.parametrize("part", ["sigmoid", "hook", "softmax"])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 40), (33, 24)])
def test_a_program_finds_a_kernel_that_is_wrong(
    folder: Path, tmp_path: Path, part: str, sizes: tuple[int, int]
) -> None:
    text = source(folder, part).read_text()
    path = tmp_path / f"{part}.c"
    path.write_text(text)
    arguments = [str(size) for size in sizes]
    assert subprocess.run([built(path, "-DGRAPHWRIGHT_MAIN"), *arguments], timeout=60).returncode == 0
    kernel, main = text.split("#ifdef GRAPHWRIGHT_MAIN")
    naive = main.replace("    return 0;\n", "    y[0] += 1;\n    return 0;\n", 1)
    path.write_text(f"{kernel}#ifdef GRAPHWRIGHT_MAIN{naive}")
    done = subprocess.run(
        [built(path, "-DGRAPHWRIGHT_MAIN"), *arguments], timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 1 and "is off by" in done.stdout


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "double", "int64"])
def test_programs_of_other_types(tmp_path: Path, dtype: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g ({dtype}[n, 33] x) => ({dtype}[n, 33] y) {{ a = Mul (x, x) y = Sub (a, x) }}"""
    compiled = gw.compile(onnx.parser.parse_model(text), options=gw.CompileOptions(isa="v3"))
    gw.emit_sources(compiled, tmp_path / "kernels")
    (path,) = (tmp_path / "kernels").glob("*.c")
    assert subprocess.run([built(path, "-DGRAPHWRIGHT_MAIN"), "3"], timeout=60).returncode == 0
    kernel, mark, naive = path.read_text().rpartition("#ifdef GRAPHWRIGHT_MAIN")
    wrong = "    ((unsigned char *)buf[1])[sizeof *y - 1] ^= 0x18;\n    return 0;\n}\n"
    path.write_text(kernel + mark + naive.replace("    return 0;\n}\n", wrong, 1))
    assert subprocess.run([built(path, "-DGRAPHWRIGHT_MAIN"), "3"], timeout=60).returncode == 1


def test_a_hook_receives_tiles_of_two_products(tmp_path: Path) -> None:
    b, rng = gw.GraphBuilder(), np.random.default_rng(0)
    x = b.input("x", np.float32, ("N", 24))
    gate, up = (b.matmul(x, rng.standard_normal((24, 40)).astype(np.float32)) for _ in "gu")
    b.output("y", b.mul(b.sigmoid(gate), up))
    gw.emit_sources(b.compile(options=gw.CompileOptions(isa="v3")), tmp_path / "kernels")
    path = source(tmp_path / "kernels", "hook")
    for sizes in ((1, 1), (3, 40)):
        program = [built(path, "-DGRAPHWRIGHT_MAIN"), *map(str, sizes)]
        assert subprocess.run(program, timeout=60).returncode == 0


def test_a_file_computes_what_numpy_does(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "kernel.c"
    copied.write_text(source(folder, "sigmoid").read_text())
    library = ctypes.CDLL(str(built(copied, "-shared", "-fPIC")))
    x = np.random.default_rng(0).standard_normal(5 * 24).astype(np.float32)
    y = np.zeros_like(x)
    buffers = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
    sizes = (ctypes.c_int64 * 1)(x.size)
    assert library.sigmoid_mul_1(buffers, sizes, ctypes.c_int64(0), ctypes.c_int64(1), None) == 0
    np.testing.assert_allclose(y, x / (1 + np.exp(-x)), rtol=1e-5)


def test_compile_writes_the_sources_in_addition_to_the_package(tmp_path: Path) -> None:
    path, kernels = write_model(tmp_path / "model.onnx", op="Sigmoid"), tmp_path / "kernels"
    done = graphwright("compile", path, "-o", tmp_path / "model.om", "--emit-sources", kernels)
    assert done.exit_code == 0, done.output
    assert {each.suffix for each in kernels.iterdir()} == {".c", ".sh"}
    again = tmp_path / "of_the_package"
    command = ("compile", tmp_path / "model.om", "-o", tmp_path / "again.om", "--emit-sources", again)
    assert graphwright(*command).exit_code == 0
    assert {p.name: p.read_text() for p in kernels.iterdir()} == {
        p.name: p.read_text() for p in again.iterdir()
    }


def test_files_of_several_isas_have_different_names(tmp_path: Path) -> None:
    made = gw.compile(onnx.parser.parse_model(TEXT), options=gw.CompileOptions(targets=("v4", "v3")))
    names = {path.name for path in gw.emit_sources(made, tmp_path / "kernels")}
    assert {"sigmoid_mul_1_v3.c", "sigmoid_mul_1_v4.c"} <= names


def test_operands_are_as_long_as_kernels_read(tmp_path: Path) -> None:
    """The merged axes of a product have a size of their own, which the axis of another operand decides."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2, t, 16] x, float[16, 32] w, float[t, 32] c) => (float[2, t, 32] y)
    <int64[1] zero = {0}, int64[1] half = {16}, int64[1] end = {32}, int64[1] last = {-1}> {
        m = MatMul (x, w)
        a = Slice (m, zero, half, last)
        b = Slice (m, half, end, last)
        n = Neg (b)
        r = Concat <axis = -1> (n, a)
        p = Mul (r, c)
        y = Add (m, p)
    }"""
    gw.emit_sources(gw.compile(onnx.parser.parse_model(text)), tmp_path / "kernels")
    script = ["sh", str(tmp_path / "kernels" / "build.sh")]
    done = subprocess.run(script, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_made_up_indices_are_in_range_of_given_sizes(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2, n, 48] x, int64[2, 1, 48] i, float[2, 1, 48] u) => (float[2, n, 48] y) {
        y = ScatterElements <axis = 1> (x, i, u)
    }"""
    gw.emit_sources(gw.compile(onnx.parser.parse_model(text), options={"isa": "v3"}), tmp_path / "kernels")
    program = built(source(tmp_path / "kernels", "scatter"), "-DGRAPHWRIGHT_MAIN", "-fsanitize=address")
    for sizes in (["1", "1"], ["2", "2"], ["5", "5"]):
        done = subprocess.run([str(program), *sizes], timeout=120, capture_output=True, text=True)
        assert "buffer-overflow" not in done.stderr, done.stderr  # leaks are expected


def test_hostile_names_stay_in_comments(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.onnx", HOSTILE, op="Sigmoid")
    gw.emit_sources(gw.compile(str(path)), tmp_path / "kernels")
    subprocess.run(["sh", str(tmp_path / "kernels" / "build.sh")], check=True, timeout=120)


def test_a_model_without_kernels_of_its_own_gives_the_script_alone(tmp_path: Path) -> None:
    made = gw.compile(onnx.parser.parse_model(TEXT), options=gw.CompileOptions(device="reference"))
    assert [path.name for path in gw.emit_sources(made, tmp_path / "kernels")] == ["build.sh"]


# -- the folder


def test_a_folder_that_is_not_empty_is_rejected_before_the_work(model: gw.Model, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(OptionError, match="is not empty"):
        gw.emit_sources(model, tmp_path)
    path = write_model(tmp_path / "model.onnx")
    done = graphwright("compile", path, "-o", tmp_path / "model.om", "--emit-sources", tmp_path)
    assert done.exit_code == 2 and "empty" in done.output
    assert not (tmp_path / "model.om").exists()


def test_other_folders_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "is not a folder" in (new_folder_fault(tmp_path / "file") or "")
    assert "there is no folder" in (new_folder_fault(tmp_path / "missing" / "folder") or "")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert "is not a folder" in (new_folder_fault(tmp_path / "link") or "")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.getuid():
        assert "cannot be written" in (new_folder_fault(locked / "kernels") or "")


def test_an_empty_folder_is_filled(model: gw.Model, tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    assert len(gw.emit_sources(model, tmp_path / "kernels")) == 4


def test_nothing_is_left_if_a_file_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="kernels"):
        write_folder(tmp_path / "kernels", {"a": "x", "a/b": "a file is no folder"})
    assert list(tmp_path.iterdir()) == []
