"""Inputs of ONNX models that become states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphwright as gw
from graphwright.errors import ModelError
from tests.runtime.recurrent import FEATURES, HIDDEN, recurrent
from tests.tools.support import graphwright

Array = np.ndarray[Any, Any]


def chunks(count: int = 4, batch: int = 1) -> list[Array]:
    random = np.random.default_rng(1)
    return [random.standard_normal((3 + n, batch, FEATURES)).astype(np.float32) for n in range(count)]


def expected(model: bytes, fed: list[Array]) -> tuple[list[Array], Array]:
    """The results of ONNX Runtime if the caller carries the state, and the last state."""
    session = onnxruntime.InferenceSession(model)
    h, results = np.zeros((1, fed[0].shape[1], HIDDEN), np.float32), []
    for x in fed:
        y, h = session.run(["y", "h_next"], {"x": x, "h": h})
        results.append(y)
    return results, h


def check(model: gw.Model, source: bytes, batch: int = 1) -> None:
    fed = chunks(batch=batch)
    wanted, last = expected(source, fed)
    for x, y in zip(fed, wanted, strict=True):
        np.testing.assert_allclose(*model(x), y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.states["h"], last, rtol=1e-4, atol=1e-5)


def test_the_model_carries_the_state(tmp_path: Path) -> None:
    model = gw.compile(recurrent(), states={"h": "h_next"})
    assert [spec.name for spec in model.inputs] == ["x"] and [spec.name for spec in model.outputs] == ["y"]
    check(model, recurrent())
    model.save(tmp_path / "m.om")
    check(gw.load(tmp_path / "m.om"), recurrent())
    check(gw.load(tmp_path / "m.om", trust=False, options={"key_dir": tmp_path / "other"}), recurrent())


@pytest.mark.parametrize("batch", [1, 3])
def test_a_state_of_dynamic_sizes_is_set_first(batch: int) -> None:
    source = recurrent("N")
    model = gw.compile(source, states={"h": "h_next"})
    model.reset({"h": np.zeros((1, batch, HIDDEN), np.float32)})
    check(model, source, batch)


@pytest.mark.parametrize("outputs", ["y", ["y", "h_next"], ["all"]])
def test_outputs_are_selected_in_addition_to_states(outputs: Any) -> None:
    model = gw.compile(recurrent(), states={"h": "h_next"}, outputs=outputs)
    assert [spec.name for spec in model.outputs] == ([outputs] if isinstance(outputs, str) else outputs)
    fed = chunks(2)
    for x in fed:
        model(x)
    np.testing.assert_allclose(model.states["h"], expected(recurrent(), fed)[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"hh": "h_next"}, "no input 'hh'.*did you mean 'h'"),
        ({"h": "h_nex"}, "no output 'h_nex'.*did you mean 'h_next'"),
        ({"h": "h_next", "x": "h_next"}, "output 'h_next' is used for 2 states"),
        ({"x": "h_next"}, r"state 'x' is f32\[T, 1, 8\], but its next value 'h_next' is f32\[1, 1, 5\]"),
    ],
)
def test_invalid_states_are_named(states: dict[str, str], said: str) -> None:
    with pytest.raises(ModelError, match=f"(?s){said}"):
        gw.compile(recurrent(), states=states)


def test_the_command_keeps_states(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(recurrent())
    target = tmp_path / "m.om"
    made = graphwright("compile", tmp_path / "m.onnx", "-o", target, "--state", "h=h_next")
    assert made.exit_code == 0
    check(gw.load(target), recurrent())
    wrong = graphwright("compile", tmp_path / "m.onnx", "-o", target, "--state", "h")
    assert wrong.exit_code == 2 and "'h' is not INPUT=OUTPUT" in wrong.stderr.replace("\n", " ")
