"""The standalone library: C programs that need no other file, several libraries in one process, damaged
libraries, and models that need Python.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from typer.testing import CliRunner, Result

import graphwright as gw
from graphwright.autofusion.autofuse import Request, autofuse
from graphwright.autofusion.standalone import Standalone, library_name
from graphwright.c_api import INCLUDE_FOLDER, LIBRARY_FOLDER
from graphwright.config import Options
from graphwright.errors import ModelError
from graphwright.targets.cpu.isa import ISAS
from graphwright.tools.graph_autofusion import app
from tests.c_api.build import EXAMPLES, STRICT
from tests.c_api.library import CError, Model, load
from tests.c_api.models import classified, classifier, rows
from tests.onnx_models import model_proto
from tests.runtime.counter import counter
from tests.runtime.host_program.models import MODELS
from tests.tools.support import write_model

Array = np.ndarray[Any, Any]
HERE = Path(__file__).parent
WIDTHS = {"relu": 24, "tanh": 40}
ROWS = (1, 3, 0, 70)


@cache
def source(name: str) -> onnx.ModelProto:
    """A linear layer, an activation and a softmax, for any number of rows."""
    width, rng = WIDTHS[name], np.random.default_rng(len(name) + WIDTHS[name])
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[n, {width}] x) => (float[n, 9] y) <float[{width}, 9] w, float[9] b> {{
            h = MatMul (x, w)
            t = Add (h, b)
            r = {name.capitalize()} (t)
            y = Softmax <axis = -1> (r)
        }}""")
    del model.graph.initializer[:]
    for key, shape in (("w", (width, 9)), ("b", (9,))):
        array = rng.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, key))
    return model


def expected(name: str, count: int) -> Array:
    """The model's results for the input of the C programs."""
    x = np.sin(0.1 * np.arange(count * WIDTHS[name])).astype(np.float32).reshape(count, WIDTHS[name])
    (y,) = ReferenceEvaluator(source(name)).run(None, {"x": x})
    return np.asarray(y)


def fuse(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def build(file: str, target: Path, flags: Sequence[str]) -> Path:
    command = ["gcc", "-std=gnu11", *STRICT, str(HERE / file), f"-I{INCLUDE_FOLDER}", "-o", str(target)]
    subprocess.run([*command, *flags, "-lm", "-lpthread"], check=True)
    return target


def run(program: Path, folder: Path, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Runs the program, which finds libraries only in ``folder``."""
    command = [str(program), *map(str, arguments)]
    known = {"LD_LIBRARY_PATH": str(folder), "PATH": os.defpath}
    return subprocess.run(command, capture_output=True, env=known, timeout=120, cwd=folder)


def outputs(done: subprocess.CompletedProcess[bytes]) -> Array:
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, np.float32).reshape(-1, 9)


def assert_outputs(done: subprocess.CompletedProcess[bytes], wanted: Sequence[Array]) -> None:
    np.testing.assert_allclose(outputs(done), np.concatenate(wanted), rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The libraries of both models and the programs."""
    folder = tmp_path_factory.mktemp("standalone")
    for name in WIDTHS:
        onnx.save(source(name), folder / f"{name}.onnx")
        done = fuse("-i", folder / f"{name}.onnx", "-o", folder / f"m_{name}.onnx", "--standalone")
        assert done.exit_code == 0, done.output
    build("standalone.c", folder / "standalone", [f"-L{folder}", "-lm_relu"])
    build("several.c", folder / "several", [])
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of any number of rows, signed with this user's key."""
    path = tmp_path_factory.mktemp("package") / "classifier.om"
    classifier().compile().save(path)
    return path


# ---- one library ----


def test_a_program_needs_the_library_alone(folder: Path) -> None:
    done = run(folder / "standalone", folder, "!cat /proc/$PPID/maps >&2", *ROWS)
    assert_outputs(done, [expected("relu", count) for count in ROWS])
    mapped = set(re.findall(r"/.*\.so\S*", done.stderr.decode()))
    own = {path for path in mapped if not re.match(r"/(usr/)?lib(64)?/", path)}
    assert own == {str(folder / "libm_relu.so")}
    dynamic = subprocess.run(["readelf", "-d", str(folder / "libm_relu.so")], capture_output=True, text=True)
    assert set(re.findall(r"NEEDED.*\[(.*)\]", dynamic.stdout)) <= {"libc.so.6", "ld-linux-x86-64.so.2"}
    assert "SONAME" not in dynamic.stdout


def test_the_example_runs(folder: Path) -> None:
    command = ["gcc", "-O2", *STRICT, "-Wpedantic", str(EXAMPLES / "embedded.c"), f"-I{INCLUDE_FOLDER}"]
    program = folder / "embedded"
    subprocess.run([*command, f"-L{folder}", "-lm_tanh", "-o", str(program)], check=True)
    done = run(program, folder, 2)
    assert done.returncode == 0, done.stderr
    given, made, elements = done.stdout.decode().splitlines()
    assert (given, made) == ("input x: f32[n, 40]", "output y: f32[n, 9]")
    (wanted,) = ReferenceEvaluator(source("tanh")).run(None, {"x": np.zeros((2, 40), np.float32)})
    assert elements.endswith(" ...")
    np.testing.assert_allclose([*map(float, elements.split()[:4])], wanted[0, :4], rtol=1e-4)


def test_the_library_can_be_moved_and_replaced(folder: Path, tmp_path: Path) -> None:
    """The library works when it is moved before it is loaded, when its file is replaced later, and from
    another folder.
    """
    moved = tmp_path / "another folder"
    moved.mkdir()
    (moved / "libm_relu.so").write_bytes((folder / "libm_relu.so").read_bytes())
    assert_outputs(run(folder / "standalone", moved, 3), [expected("relu", 3)])
    command = ["env", "LD_LIBRARY_PATH=.", str(folder / "standalone"), "!rm libm_relu.so", "cd=/", "3"]
    done = subprocess.run(command, capture_output=True, cwd=moved, timeout=120)
    assert_outputs(done, [expected("relu", 3)])
    assert list(moved.iterdir()) == []


def test_outputs_are_those_of_the_package(folder: Path) -> None:
    """Outputs are equal bit for bit: the library runs what ``graphwright compile`` compiles."""
    compiled = gw.compile(source("relu"))
    x = np.random.default_rng(3).normal(size=(17, WIDTHS["relu"])).astype(np.float32)
    with Model(None, library=load(folder / "libm_relu.so")) as model:
        assert model.inputs == ["x: f32[n, 24]"] and model.outputs == ["y: f32[n, 9]"]
        np.testing.assert_array_equal(model.run(x)[0], compiled(x)[0])


def test_bytes_are_a_function_of_the_model(folder: Path, tmp_path: Path) -> None:
    """The bytes do not depend on the folder, on the kernel cache, or on the user's key."""
    settings = {
        "GRAPHWRIGHT_CACHE_DIR": str(tmp_path / "cache"),
        "GRAPHWRIGHT_KEY_DIR": str(tmp_path / "keys"),
    }
    onnx.save(source("relu"), tmp_path / "m_relu.onnx")
    arguments = ["-i", str(tmp_path / "m_relu.onnx"), "-o", str(tmp_path / "m_relu.x.onnx"), "--standalone"]
    assert CliRunner().invoke(app, arguments, env=settings).exit_code == 0
    assert (tmp_path / "libm_relu_x.so").read_bytes() == (folder / "libm_relu.so").read_bytes()
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("isa", ISAS)
def test_a_library_for_one_isa(isa: str, folder: Path, tmp_path: Path) -> None:
    onnx.save(source("relu"), tmp_path / "relu.onnx")
    done = fuse("-i", tmp_path / "relu.onnx", "-o", tmp_path / "m_relu.onnx", "--standalone", "--isa", isa)
    if done.exit_code:
        assert "needs another CPU" in done.output
        assert [each.name for each in tmp_path.iterdir()] == ["relu.onnx"]
        return
    whole, part = (each / "libm_relu.so" for each in (folder, tmp_path))
    assert part.stat().st_size < whole.stat().st_size
    assert_outputs(run(folder / "standalone", tmp_path, 3), [expected("relu", 3)])


def test_levels_and_rules_are_obeyed() -> None:
    names = {}
    for rules in ("all", "none"):
        made = autofuse(
            source("relu"), Request(standalone=True), options=Options(fusion_rules=rules, isa="v3")
        )
        assert made.standalone is not None
        (program,) = made.standalone.package.programs()
        names[rules] = len(program.targets["v3"].stored.launches)
    assert names["none"] > names["all"]
    bare = autofuse(
        source("relu"), Request(standalone=True), options=Options(opt_level=0, isa="v3")
    ).standalone
    assert bare is not None and bare.package.options["opt_level"] == "0"


def test_images_and_weights_of_several_layouts(tmp_path: Path) -> None:
    """Each ISA has its own block size; weights that are not stored in these blocks are packed again at
    load.
    """
    rng = np.random.default_rng(5)
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 3, h, w] x) => (float[1, 32, 1, 1] y) <float[32, 3, 3, 3] a, float[32, 32, 3, 3] b> {
            p = Conv <pads = [1, 1, 1, 1]> (x, a)
            q = Relu (p)
            r = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (q, b)
            y = GlobalAveragePool (r)
        }""")
    del model.graph.initializer[:]
    for name, shape in (("a", (32, 3, 3, 3)), ("b", (32, 32, 3, 3))):
        array = rng.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    made = autofuse(model, Request(standalone=True)).standalone
    assert made is not None and made.package.isas() == sorted(ISAS)
    for first in ISAS:
        options = Options(targets=(first, *(isa for isa in ISAS if isa != first)))
        package = gw.compile(model, options=options).package
        with open(tmp_path / f"{first}.so", "wb") as file:
            Standalone(package).write(file)
        x = rng.normal(size=(1, 3, 20, 17)).astype(np.float32)
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
        with Model(None, library=load(tmp_path / f"{first}.so")) as opened:
            np.testing.assert_allclose(opened.run(x)[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["detector", "positives", "resized", "two_in_a_row", "counted"])
def test_data_dependent_sizes(name: str, tmp_path: Path) -> None:
    """Several programs run, with data-dependent dimensions between them."""
    known = MODELS[name]()
    made = autofuse(known.model, Request(standalone=True)).standalone
    assert made is not None
    with open(tmp_path / "libm.so", "wb") as file:
        made.write(file)
    evaluator = ReferenceEvaluator(onnx.load_from_string(known.model))
    with Model(None, library=load(tmp_path / "libm.so")) as model:
        for feed in known.feeds:
            outputs = model.run(*(feed[text.partition(":")[0]] for text in model.inputs))
            for ours, theirs in zip(outputs, evaluator.run(None, feed), strict=True):
                assert ours.shape == theirs.shape
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_states_are_kept_by_each_opened_model(tmp_path: Path) -> None:
    with open(tmp_path / "libcounter.so", "wb") as file:
        Standalone(counter().package).write(file)
    library, one = load(tmp_path / "libcounter.so"), np.ones(3, np.float32)
    with Model(None, library=library) as first, Model(None, library=library) as second:
        assert first.states == ["count: f32[3]"]
        for k in range(3):
            np.testing.assert_array_equal(first.run(one)[0], one * k)
        np.testing.assert_array_equal(second.run(one)[0], one * 0)
        library.gw_states_reset(first.handle)
        np.testing.assert_array_equal(first.run(one)[0], one * 0)


def test_other_packages_open_as_well(folder: Path, package: Path) -> None:
    """A library can open another package if it may run the kernels of that package."""
    library, x = load(folder / "libm_relu.so"), rows(5)
    with Model(package, library=library) as model:
        np.testing.assert_allclose(model.run(x)[0], classified(x)[0], rtol=1e-5, atol=1e-7)


def test_the_interface_alone_contains_no_model() -> None:
    for name in ("libgraphwright.so", "libgraphwright_standalone.so"):
        with pytest.raises(CError, match="contains no model") as error:
            Model(None, library=load(LIBRARY_FOLDER / name))
        assert error.value.status == "package" and "--standalone" in error.value.text
    library = load()
    assert library.gw_status_name(library.gw_open_embedded(None, None)) == b"argument"
    assert library.gw_api_version() >= 1001


# ---- several libraries ----


@pytest.mark.parametrize("mode", ["local", "global"])
def test_libraries_of_one_process_run_their_own_models(mode: str, folder: Path) -> None:
    """Three libraries also run at the same time; the third is a copy of the first."""
    (folder / "copy.so").write_bytes((folder / "libm_relu.so").read_bytes())
    libraries = [folder / "libm_relu.so", folder / "libm_tanh.so", folder / "copy.so"]
    wanted = [expected(name, 5) for name in ("relu", "tanh", "relu")]
    assert_outputs(run(folder / "several", folder, mode, 5, *libraries), wanted)


def test_a_program_is_linked_with_two(folder: Path) -> None:
    """Calls of the program go to the first library, and calls of each library to itself."""
    flags = [f"-L{folder}", "-Wl,--no-as-needed", "-lm_tanh", "-lm_relu"]
    linked = build("several.c", folder / "linked", flags)
    libraries = [folder / "libm_relu.so", folder / "libm_tanh.so"]
    wanted = [expected("relu", 4), expected("tanh", 4)]
    assert_outputs(run(linked, folder, "global", 4, *libraries), wanted)
    first = build("standalone.c", folder / "first", flags)
    assert_outputs(run(first, folder, 2), [expected("tanh", 2)])


def test_no_symbol_of_a_library_is_bound_to_another(folder: Path) -> None:
    for path in (folder / "libm_relu.so", LIBRARY_FOLDER / "libgraphwright.so"):
        done = subprocess.run(["readelf", "-rW", str(path)], capture_output=True, text=True, check=True)
        assert "R_X86_64_JUMP_SLO" in done.stdout
        assert re.findall(r"\bgw_\w+", done.stdout) == []


@pytest.mark.parametrize("mode", [ctypes.RTLD_LOCAL, ctypes.RTLD_GLOBAL])
def test_the_library_runs_next_to_python_and_libgraphwright(mode: int, folder: Path, package: Path) -> None:
    x, wide = rows(6), np.random.default_rng(1).normal(size=(6, WIDTHS["tanh"])).astype(np.float32)
    (wanted,) = ReferenceEvaluator(source("tanh")).run(None, {"x": wide})
    library = load(folder / "libm_tanh.so", mode)
    with Model(None, library=library) as alone, Model(package) as model:
        for _ in range(3):
            np.testing.assert_allclose(alone.run(wide)[0], wanted, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(model.run(x)[0], classified(x)[0], rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(classifier().compile()(x)[0], classified(x)[0], rtol=1e-5, atol=1e-7)
        with pytest.raises(CError) as error:
            alone.run(x)
        assert error.value.status == "shape" and "'x'" in error.value.text


# ---- damaged libraries ----


def damaged(folder: Path, target: Path, content: bytes) -> str:
    """The error of the program with a library of this content."""
    (target / "libm_relu.so").write_bytes(content)
    done = run(folder / "standalone", target, 3)
    assert done.returncode == 1 and done.stdout == b"", done
    return done.stderr.decode()


def test_a_library_that_was_cut_short_is_an_error(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "libm_relu.so").read_bytes()
    code = (LIBRARY_FOLDER / "libgraphwright_standalone.so").stat().st_size
    for size in (code, code + 1, code + 5000, len(whole) // 2, len(whole) - 500, len(whole) - 1):
        assert "contains no model" in damaged(folder, tmp_path, whole[:size]), size


def test_a_damaged_index_is_an_error(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "libm_relu.so").read_bytes()
    start = int(whole[-20:])
    index = whole[start:-32]
    for other in (bytes(len(index)), b"x" * len(index), b"9" * len(index), index[: len(index) // 2]):
        text = damaged(folder, tmp_path, whole[:start] + other + whole[-32:])
        assert "copy the file again" in text or "not a valid package" in text, other
    for number in (0, 64, start - 1, start + 7, 10**18):
        assert damaged(folder, tmp_path, whole[:-20] + b"%019d\n" % number), number
    lines = index.decode().splitlines()
    for line in (0, 2, 4):  # another place and another size: kernels of v3 and v4, package
        place, size, name = lines[line].split()
        for changed in (f"{int(place) + 8} {size} {name}", f"{place} {int(size) - 4096} {name}",
                        f"{place} 18446744073709551615 {name}", f"0 {size} {name}"):  # fmt: skip
            others = [*lines[:line], changed, *lines[line + 1 :]]
            content = whole[:start] + "".join(f"{each}\n" for each in others).encode() + whole[-32:]
            (tmp_path / "libm_relu.so").write_bytes(content)
            done = run(folder / "standalone", tmp_path, 3)
            assert done.returncode in (0, 1), (changed, done)  # 0: the kernels of another CPU
            assert done.returncode == 1 or name.startswith(("v3", "v4"))


def test_damaged_parts_are_an_error(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "libm_relu.so").read_bytes()
    index = whole[int(whole[-20:]) : -32].decode().splitlines()
    places = {line.split()[2]: line.split()[:2] for line in index}
    kernels = [f"{isa}/kernels.so" for isa in ISAS]
    hashes = [f"{isa}/kernels.sha256" for isa in ISAS]
    assert {*places} == {*kernels, *hashes, "model.om"}

    def changed(*names: str) -> bytes:
        content = bytearray(whole)
        for name in names:
            start, size = map(int, places[name])
            for at in range(start, start + size, 64):
                content[at] ^= 1
        return bytes(content)

    assert "kernels were changed" in damaged(folder, tmp_path, changed(*kernels))
    assert "kernels were changed" in damaged(folder, tmp_path, changed(*hashes))
    assert "libm_relu.so" in damaged(folder, tmp_path, changed("model.om"))


# ---- models that are refused ----


NEED_PYTHON = {
    "reshaped": "Reshape", "growing": "Loop", "branching": "If", "texts": "string", "open_rank": "rank",
}  # fmt: skip


@pytest.mark.parametrize("name", NEED_PYTHON)
def test_models_that_need_python_are_rejected(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(MODELS[name]().model)
    done = fuse("-i", path, "-o", tmp_path / "out.onnx", "--standalone", "--library", "--emit-sources",
                tmp_path / "c")  # fmt: skip
    text = " ".join(done.output.split())
    assert done.exit_code == 1 and "[standalone]" in text and NEED_PYTHON[name] in text, done.output
    assert text.count("leave out --standalone") == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_foreign_operator_is_rejected(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("Odd", ["h"], ["y"], "odd", domain="own"),
    ]
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    autofuse(model)
    with pytest.raises(ModelError, match="odd"):
        autofuse(model, Request(standalone=True))


# ---- the command ----


def test_the_command_lists_the_file(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.onnx")
    done = fuse("-i", path, "-o", tmp_path / "2 fused-nets.onnx", "--standalone")
    assert done.exit_code == 0
    assert f"wrote {tmp_path / 'lib_2_fused_nets.so'} (" in done.output.replace("\n", "")
    assert (tmp_path / "lib_2_fused_nets.so").is_file()
    assert library_name("\u00e9") == "libmodel.so"


@pytest.mark.parametrize(
    "others",
    [
        ("--inline",),
        ("--library", "--isa", "v3"),
        ("--library", "--weights", "packed", "--isa", "v3"),
        ("--debug",),
        ("--opt-level", "1"),
        ("--fusion-rules", "none"),
        ("--external-weights",),
    ],
    ids=" ".join,
)
def test_standalone_can_be_combined_with_other_options(
    others: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    onnx.save(source("relu"), tmp_path / "relu.onnx")
    done = fuse("-i", tmp_path / "relu.onnx", "-o", tmp_path / "m_relu.onnx", "--standalone", *others)
    assert done.exit_code == 0, done.output
    assert_outputs(run(folder / "standalone", tmp_path, 3), [expected("relu", 3)])
    assert (tmp_path / "m_relu.onnx").exists()


def test_a_fused_model_is_compiled_again(folder: Path, tmp_path: Path) -> None:
    assert fuse("-i", folder / "m_relu.onnx", "-o", tmp_path / "m_relu.onnx", "--standalone").exit_code == 1
    assert list(tmp_path.iterdir()) == []
    done = fuse("-i", folder / "m_relu.onnx", "-o", tmp_path / "m_relu.onnx", "--standalone", "--redo")
    assert done.exit_code == 0, done.output
    assert_outputs(run(folder / "standalone", tmp_path, 3), [expected("relu", 3)])


def test_all_files_are_written_or_none(tmp_path: Path) -> None:
    """A folder exists at the path of the library."""
    path = write_model(tmp_path / "m.onnx")
    (tmp_path / "libout.so").mkdir()
    done = fuse("-i", path, "-o", tmp_path / "out.onnx", "--standalone", "--library")
    assert done.exit_code == 1
    assert f"{tmp_path / 'libout.so'}: Is a directory" in done.output.replace("\n", "")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["libout.so", "m.onnx"]


def test_a_missing_compiler_is_one_error_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(source("tanh"), path)
    settings = {"GRAPHWRIGHT_CC": "/nowhere/cc", "GRAPHWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    arguments = ["-i", str(path), "-o", str(tmp_path / "out.onnx"), "--standalone"]
    done = CliRunner().invoke(app, arguments, env=settings)
    assert done.exit_code == 1 and done.output.count("error:") == 1
    assert [each.name for each in tmp_path.iterdir() if each.name != "cache"] == ["m.onnx"]


def test_weights_of_the_source_are_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(source("relu"), path, save_as_external_data=True, location="libout.so", size_threshold=0)
    before = (tmp_path / "libout.so").read_bytes()
    done = fuse("-i", path, "-o", tmp_path / "out.onnx", "--standalone")
    assert done.exit_code == 2 and "[source-file]" in done.output
    assert (tmp_path / "libout.so").read_bytes() == before


def test_the_command_states_the_assumed_sizes(tmp_path: Path) -> None:
    """If programs exist only for dimensions that agree, the command says so, and other shapes are an
    error.
    """
    nodes = [helper.make_node("Add", ["x", "z"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    model = model_proto(nodes, {"x": ["n", 4], "z": ["m", 4]}, {"y": None})
    onnx.save(model, tmp_path / "m.onnx")
    done = fuse("-i", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--standalone")
    assert done.exit_code == 0, done.output
    made = autofuse(model, Request(standalone=True)).standalone
    assert made is not None
    assert (", ".join(made.assumed) in " ".join(done.output.split())) and made.assumed
    x = np.ones((3, 4), np.float32)
    with Model(None, library=load(tmp_path / "libout.so")) as opened:
        np.testing.assert_array_equal(opened.run(x, x)[0], x + x)
        with pytest.raises(CError) as error:
            opened.run(x, x[:1])
        assert error.value.status in ("unsupported", "shape")
