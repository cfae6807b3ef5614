"""What users of Python expect of the package's front: names listed, a version, arguments in several forms."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.ir.dtypes import DTYPES
from graphwright.ops.core.binary import Add

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _sum(**sizes: Any) -> gw.GraphBuilder:
    """``total = x + y``, and the inner value ``total``'s parts."""
    builder = gw.GraphBuilder()
    x = builder.input("x", "f32", ("N", 3))
    y = builder.input("y", "f32", ("N", 3))
    builder.output("total", builder(Add(), x, y))
    builder.output("twice", builder(Add(), x, x))
    return builder


def _one_input() -> gw.GraphBuilder:
    builder = gw.GraphBuilder()
    x = builder.input("x", "f32", ("N", 3))
    builder.output("twice", builder(Add(), x, x))
    return builder


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_api_is_listed() -> None:
    assert set(gw.__all__) <= set(dir(gw)) and "__version__" in dir(gw)
    assert {"annotations", "TYPE_CHECKING", "importlib", "Any"}.isdisjoint(dir(gw))
    for name in gw.__all__:
        assert getattr(gw, name) is not None


def test_the_version_is_that_of_the_distribution() -> None:
    import importlib.metadata

    assert gw.__version__ == importlib.metadata.version("graphwright")


def test_unknown_names_are_suggested_once() -> None:
    with pytest.raises(AttributeError, match="no attribute 'complie'"):
        gw.complie  # type: ignore[attr-defined]  # noqa: B018
    assert python("import graphwright as gw; gw.complie").stderr.count("Did you mean: 'compile'?") == 1


def test_element_types_are_those_of_numpy() -> None:
    for dtype in DTYPES.values():
        assert np.dtype(dtype) == dtype.numpy  # type: ignore[call-overload]  # NumPy takes what has a dtype
    (spec,) = gw.compile(_one_input().build()).inputs
    assert np.zeros((2, 3), spec.dtype).dtype == np.float32  # type: ignore[call-overload]  # NumPy takes what has a dtype
    assert repr(spec) == "TensorSpec(name='x', dtype=f32, shape=('N', 3))"


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": (2, 3)},
        {"x": [2, 3]},
        {"x": "2,3"},
        {"x": ("2", 3)},
        {"x": np.array([2, 3]).tolist()},
        (2, 3),
        [2, 3],
        [(2, 3)],
        ((2, 3),),
        {"x": (np.int64(2), None)},
    ],
)
def test_shapes_have_many_forms(shapes: Any) -> None:
    assert gw.compile(_one_input().build(), shapes=shapes).inputs[0].shape == (2, 3)


def test_shapes_by_position() -> None:
    model = gw.compile(_sum().build(), shapes=[(2, 3), (None, 3)])
    assert [spec.shape for spec in model.inputs] == [(2, 3), (2, 3)]
    ranged = gw.compile(_one_input().build(), shapes=(range(1, 5), 3))
    assert ranged(X)[0].shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shapes": (2, 3)}, "shapes has one shape, but the model has 2 inputs"),
        ({"shapes": {"x": 5}}, "the sizes of input 'x' must be a tuple of sizes, not 5"),
        ({"shapes": "x:2,3"}, "shapes is 'x:2,3', not a list"),
        ({"shapes": 7}, "shapes is 7, not a list"),
        ({"shapes": {"z": (2, 3)}}, "there is no input 'z'"),
        ({"outputs": 3}, "outputs is 3, not a list"),
        ({"outputs": [3]}, r"outputs must be names of values, not \[3\]"),
        ({"outputs": {"total": 1}}, "outputs must be names of values"),
        ({"outputs": []}, "outputs is empty"),
        ({"outputs": "totl"}, "there is no value 'totl'(.|\n)*did you mean 'total'"),
        ({"constants": [1]}, r"constants must be a dict by name of input, not \[1\]"),
        ({"gears": [(1, 3)]}, r"gears must be a dict by name of input, not \[\(1, 3\)\]"),
        ({"options": "fast"}, "options must be a CompileOptions or a dict, not str"),
        ({"options": {"thread": 1}}, "there is no option thread(.|\n)*did you mean 'threads'"),
        ({"options": {"threads": "two"}}, "threads='two'"),
    ],
)
def test_arguments_that_do_not_fit_are_one_clear_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(gw.GraphwrightError, match=message):
        gw.compile(_sum().build(), **arguments)


def test_one_output_is_a_text() -> None:
    model = gw.compile(_sum().build(), outputs="twice")
    assert [spec.name for spec in model.outputs] == ["twice"]
    both = gw.compile(_sum().build())
    assert list(both.run({"x": X, "y": X}, "twice")) == ["twice"]
    (found,) = both.listed("total", {"x": X, "y": X + 1})
    np.testing.assert_array_equal(found, X + X + 1)
    with pytest.raises(gw.FeedError, match=r"there is no output 'tota'(.|\n)*did you mean 'total'"):
        both.run({"x": X, "y": X}, "tota")


def test_options_are_an_object_or_a_dict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHWRIGHT_PLAN_CACHE", "3")
    given = {"threads": np.int64(1), "cache_dir": str(tmp_path), "plugins": []}
    options = gw.CompileOptions.of(given)
    assert (options.threads, options.plan_cache, options.cache_dir) == (1, 3, tmp_path)
    assert gw.CompileOptions.of(gw.CompileOptions(threads=2)).plan_cache == 16
    model = gw.compile(_one_input().build(), options=given)
    assert model.threads == 1
    model.save(tmp_path / "m.om")
    assert gw.load(tmp_path / "m.om", options={"threads": 2}).threads == 2
    with pytest.raises(gw.OptionError, match="there is no option thread"):
        gw.load(tmp_path / "m.om", options={"thread": 2})


def test_load_says_what_is_wrong_with_its_arguments(tmp_path: Path) -> None:
    gw.compile(_one_input().build()).save(tmp_path / "m.om")
    for name in ("trust", "mmap", "verify"):
        with pytest.raises(gw.OptionError, match=f"{name}='no': it must be True or False, not of type str"):
            gw.load(tmp_path / "m.om", **{name: "no"})
    with pytest.raises(gw.PackageError, match="the path is empty"):
        gw.load("")


def test_variables_that_are_no_options_are_warned_of_once() -> None:
    code = "import graphwright as gw; [gw.CompileOptions.from_environment() for _ in '123']"
    found = python(code, GRAPHWRIGHT_THREAD="2", GRAPHWRIGHT_MODELS="here", GRAPHWRIGHT_XYZQ="1").stderr
    assert "GRAPHWRIGHT_THREAD is not an option and is ignored: did you mean GRAPHWRIGHT_THREADS" in found
    assert "GRAPHWRIGHT_XYZQ is not an option and is ignored: the options are GRAPHWRIGHT_CC" in found
    assert found.count("\n") == 2


def test_names_of_inputs_are_suggested() -> None:
    builder = gw.GraphBuilder()
    builder.output("y", builder(Add(), builder.input("image", "f32", (2,)), np.ones(2, np.float32)))
    model = builder.compile()
    with pytest.raises(gw.FeedError, match=r"there is no input 'imgae'\s.*\s*did you mean 'image'"):
        model.run({"imgae": np.ones(2, np.float32)})


UNREADABLE = "/" + "a" * 300
"""A path for which the system gives another error than "no such file", as for folders that a user may not
enter.
"""


def test_a_home_that_cannot_be_read(tmp_path: Path) -> None:
    code = """
import numpy as np, graphwright as gw
from graphwright.ops.core.binary import Add
builder = gw.GraphBuilder()
x = builder.input("x", "f32", ("N", 3))
builder.output("twice", builder(Add(), x, x))
print(builder.compile()(np.ones((2, 3), np.float32))[0].tolist())
"""
    unset = {"XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": "", "GRAPHWRIGHT_KEY_DIR": str(tmp_path)}
    done = python(code, HOME=UNREADABLE, GRAPHWRIGHT_CACHE_DIR=UNREADABLE, **unset)
    assert done.stdout.strip() == "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]", done.stderr
    assert "kernels are not cached" in done.stderr and "is not used" not in done.stderr


def test_files_that_cannot_be_read() -> None:
    with pytest.raises(gw.ModelError, match="cannot be read: File name too long"):
        gw.compile(f"{UNREADABLE}/m.onnx")
    with pytest.raises(gw.PluginError, match="there is no file"):
        gw.plugins.load(f"{UNREADABLE}/m.py")


def test_an_address_is_not_a_file() -> None:
    with pytest.raises(gw.ModelError, match=r"address(.|\n)*download the file"):
        gw.compile("https://example.com/model.onnx")


def test_symbolic_links_that_lead_nowhere(tmp_path: Path) -> None:
    dangling, circular = tmp_path / "dangling.onnx", tmp_path / "circular.onnx"
    dangling.symlink_to("blobs/1")
    circular.symlink_to(circular.name)
    with pytest.raises(gw.ModelError, match="is a symbolic link to blobs/1, which is not there"):
        gw.compile(dangling)
    with pytest.raises(gw.ModelError, match="cannot be read: Too many levels of symbolic links"):
        gw.compile(circular)


def test_a_package_that_is_imported_again() -> None:
    """Some tools remove packages from ``sys.modules``, to load changed files."""
    code = """
import sys
import numpy as np

for _ in range(2):
    import graphwright as gw
    from graphwright.ops.core.binary import Add

    builder = gw.GraphBuilder()
    x = builder.input("x", "f32", ("N", 3))
    builder.output("twice", builder(Add(), x, x))
    print(builder.compile()(np.ones((1, 3), np.float32))[0].tolist())
    for name in [each for each in sys.modules if each.startswith("graphwright")]:
        del sys.modules[name]
"""
    done = python(code)
    assert done.stdout.splitlines() == ["[[2.0, 2.0, 2.0]]"] * 2, done.stderr
