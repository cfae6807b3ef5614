"""Models with several entries, which share weights, states and memory."""

from __future__ import annotations

import copy
import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright import _native
from graphwright.errors import FeedError, ModelError, OptionError
from graphwright.package.read import read_package
from tests.onnx_models import onnx_model
from tests.runtime.entries import WEIGHT, compiled, decode, feeds
from tests.tools.support import graphwright

DEVICES = ("cpu", "reference")


def check_generation(model: gw.Model, rows: int = 5) -> None:
    """A run of each entry, from zeros: the second reads what the first left."""
    model.reset()
    prompt, token = feeds(rows)
    (made,) = model.entries["prefill"](prompt)
    np.testing.assert_allclose(made, prompt @ WEIGHT, rtol=1e-5, atol=1e-5)
    (total,) = model.entries["decode"](token, np.array([[rows]]))
    expected = np.concatenate([prompt, token]) @ WEIGHT
    np.testing.assert_allclose(total, expected.sum(axis=0), rtol=1e-4, atol=1e-4)
    held = model.entries["decode"].states["cache"]
    np.testing.assert_allclose(held[: rows + 1], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(held[rows + 1 :], 0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [0, 1, 5, 15])
def test_entries_share_states(device: str, rows: int) -> None:
    check_generation(compiled(device), rows)


def test_the_first_entry_is_the_model() -> None:
    model = compiled()
    assert list(model.entries) == ["prefill", "decode"] and model.entries["prefill"] is model
    assert [spec.name for spec in model.inputs] == ["x"]
    assert [spec.name for spec in model.entries["decode"].inputs] == ["x", "at"]
    assert "prefill, decode" in repr(model)


def test_one_entry_is_called_main() -> None:
    model = gw.compile(decode())
    assert dict(model.entries) == {"main": model}


def test_weights_are_held_once() -> None:
    one = gw.compile(decode(), options={"threads": 1})
    both = compiled()
    assert both.package.weights.data.nbytes < one.package.weights.data.nbytes + WEIGHT.nbytes // 2
    assert one.package.weights.data.nbytes >= WEIGHT.nbytes


def test_an_arena_is_shared() -> None:
    model = compiled()
    check_generation(model)
    first, second = (each.stats()["arena_bytes"] for each in model.entries.values())
    assert first == second


@pytest.mark.parametrize("device", DEVICES)
def test_a_file_holds_all_entries(device: str, tmp_path: Path) -> None:
    compiled(device).save(tmp_path / "m.om")
    loaded = gw.load(tmp_path / "m.om", trust=True, options={"device": device})
    check_generation(loaded)
    again = io.BytesIO()
    loaded.entries["decode"].save(again)
    assert again.getvalue() == (tmp_path / "m.om").read_bytes()


def test_all_entries_of_an_untrusted_package_are_compiled_again(tmp_path: Path) -> None:
    compiled().save(tmp_path / "m.om")
    package = read_package(tmp_path / "m.om")
    assert [entry.executable for entry in package.entries.values()] == [None, None]
    check_generation(gw.load(tmp_path / "m.om", trust=False, options={"key_dir": tmp_path / "other"}))


def test_copies_have_states_of_their_own() -> None:
    model = compiled()
    check_generation(model)
    for other in (
        copy.deepcopy(model.entries["decode"]),
        pickle.loads(pickle.dumps(model.entries["decode"])),
    ):
        assert [spec.name for spec in other.inputs] == ["x", "at"]
        assert not other.states["cache"].any()
        check_generation(other)


def test_a_file_for_several_cpus_has_each_entry_for_each() -> None:
    model = compiled(targets=("v3",))
    assert [sorted(program.targets) for program in model.package.programs()] == [["v3"], ["v3"]]
    if _native.isa() == "v4":
        model = compiled(targets=("v4", "v3"))
        assert model.package.isas() == ["v3", "v4"]
    check_generation(model)


def test_arguments_are_by_entry() -> None:
    sources = {"one": decode(), "two": decode("other")}
    model = gw.compile(sources, constants={"two": {"at": [[3]]}}, outputs={"one": ["total"]})
    _, token = feeds()
    model.entries["two"](token)
    np.testing.assert_allclose(model.states["other"][3], (token @ WEIGHT)[0], rtol=1e-5, atol=1e-5)
    assert not model.states["cache"].any()


def test_one_module_can_be_two_entries() -> None:
    module = decode()
    model = gw.compile({"first": module, "fourth": module}, constants={"fourth": {"at": [[3]]}})
    _, token = feeds()
    model.entries["first"](token, [[0]])
    model.entries["fourth"](token)
    held = np.asarray(model.states["cache"])
    np.testing.assert_allclose(held[[0, 3]], np.repeat(token @ WEIGHT, 2, axis=0), rtol=1e-5, atol=1e-5)


def test_gears_and_open_ranks_are_entries_too() -> None:
    relu = onnx_model_of("Relu", ["N", 4])
    negated = onnx_model_of("Neg", None)
    model = gw.compile({"gears": relu, "open": negated}, gears={"gears": {"x": [(2, 4), (8, 4)]}})
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(model.entries["gears"](x)[0], np.maximum(x, 0))
    np.testing.assert_array_equal(model.entries["open"](x.reshape(2, 2, 2))[0], -x.reshape(2, 2, 2))
    with pytest.raises(FeedError):
        model.entries["gears"](x[:1])


def onnx_model_of(op: str, shape: list[Any] | None) -> bytes:
    from onnx import TensorProto, helper

    node = helper.make_node(op, ["x"], ["y"])
    return onnx_model([node], {"x": (TensorProto.FLOAT, shape)}, {"y": (TensorProto.FLOAT, None)})


@pytest.mark.parametrize(
    ("sources", "arguments", "said"),
    [
        (lambda: {"a/b": decode()}, {}, "is not a valid name of an entry"),
        (lambda: {"": decode()}, {}, "is not a valid name of an entry"),
        (lambda: {3: decode()}, {}, "is not a valid name of an entry"),
        (lambda: {"-a": decode()}, {}, "is not a valid name of an entry"),
        (lambda: {"a..b": decode()}, {}, "is not a valid name of an entry"),
        (lambda: {"one": decode()}, {"shapes": {"on": {"x": (1, 8)}}}, "did you mean 'one'"),
        (lambda: {"one": decode()}, {"outputs": ["total"]}, "outputs must be a dict"),
    ],
)
def test_wrong_arguments_are_named(sources: Any, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        gw.compile(sources(), **arguments)


def test_a_state_has_one_type_in_all_entries() -> None:
    with pytest.raises(ModelError, match=r"'cache' is f32\[16, 64\] in entry 'one', f64\[16, 64\] in 'two'"):
        gw.compile({"one": decode(), "two": decode(dtype="f64")})


def test_the_command_shows_and_runs_an_entry(tmp_path: Path) -> None:
    path = tmp_path / "m.om"
    compiled().save(path)
    shown = graphwright("inspect", path, "--entry", "decode", "--json")
    facts = json.loads(shown.stdout)
    assert facts["entries"] == ["prefill", "decode"]
    assert [spec["name"] for spec in facts["inputs"]] == ["x", "at"]
    assert "entries" in graphwright("inspect", path).stdout
    ran = graphwright("run", path, "--entry", "decode", "--input", "at=[[3]]")
    assert ran.exit_code == 0 and "total" in ran.stdout
    wrong = graphwright("run", path, "--entry", "decod")
    assert wrong.exit_code == 2 and "did you mean 'decode'" in wrong.stderr.replace("\n", " ")
