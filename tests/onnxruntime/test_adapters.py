"""LoRA adapters: files that both engines read, and runs with them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime as theirs
import pytest
from onnx import helper

import graphwright.onnxruntime as ours
from graphwright.ir.arrays import Array
from tests.onnxruntime.support import F32, built, same

DOWN, UP = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([[1, 2, 3], [0, 1, 0]], np.float32)
X = np.array([[1, 0, 2, 1]], np.float32)
KEPT: list[Any] = []
"""ONNX Runtime's options do not keep their adapters alive."""


def adapted_model() -> bytes:
    """``y = x @ w + x @ down @ up``; by default, ``down`` and ``up`` have no columns and rows."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MatMul", ["x", "down"], ["p"]),
        helper.make_node("MatMul", ["p", "up"], ["q"]),
        helper.make_node("Add", ["h", "q"], ["y"]),
    ]
    inputs: list[Any] = [("x", F32, ["n", 4]), ("down", F32, [4, "rank"]), ("up", F32, ["rank", 3])]
    constants = {
        "w": np.ones((4, 3), np.float32),
        "down": np.zeros((4, 0), np.float32),
        "up": np.zeros((0, 3), np.float32),
    }
    return built(nodes, inputs, [("y", F32, ["n", 3])], constants).SerializeToString()


def write(engine: ModuleType, path: Path, **parameters: Array) -> str:
    adapter = engine.AdapterFormat()
    adapter.set_adapter_version(3)
    adapter.set_model_version(5)
    values = {name: engine.OrtValue.ortvalue_from_numpy(array) for name, array in parameters.items()}
    adapter.set_parameters(values)
    adapter.export_adapter(str(path))
    return str(path)


def active(engine: ModuleType, *paths: str) -> Any:
    options = engine.RunOptions()
    for path in paths:
        adapter = engine.LoraAdapter()
        adapter.Load(path)
        options.add_active_adapter(adapter)
        KEPT.append(adapter)
    return options


@pytest.mark.parametrize("writer", [ours, theirs])
def test_either_engine_reads_the_file_of_the_other(writer: ModuleType, tmp_path: Path) -> None:
    arrays: dict[str, Array] = {
        "a": DOWN, "half": np.arange(5, dtype=np.float16), "none": np.zeros((0, 3), np.float32),
        "number": np.array([7], np.int64), "ä": np.arange(3, dtype=np.uint8),
    }  # fmt: skip
    path = write(writer, tmp_path / "a.onnx_adapter", **arrays)
    for reader in (ours, theirs):
        found = reader.AdapterFormat.read_adapter(path)
        versions = found.get_format_version(), found.get_adapter_version(), found.get_model_version()
        assert versions == (1, 3, 5)
        parameters = found.get_parameters()
        assert parameters.keys() == arrays.keys()
        for name, array in arrays.items():
            read = parameters[name].numpy()
            assert (read.dtype, read.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(read, array)


def test_runs_with_an_adapter(tmp_path: Path) -> None:
    first = write(theirs, tmp_path / "first", down=DOWN, up=UP)
    second = write(theirs, tmp_path / "second", up=2 * UP)

    def results(engine: ModuleType) -> Any:
        session, value = engine.InferenceSession(adapted_model()), engine.OrtValue.ortvalue_from_numpy(X)
        one, two = active(engine, first), active(engine, first, second)
        return [
            session.run(None, {"x": X}, one),
            session.run(["y"], {"x": X, "down": 9 * DOWN}, one),
            session.run(None, {"x": X}, two),
            session.run_with_ort_values(None, {"x": value}, one)[0].numpy(),
            session.run(None, {"x": X}),
        ]

    adapted = X @ np.ones((4, 3), np.float32) + X @ DOWN @ UP
    assert same(results)[0] == [("float32", (1, 3), adapted.tolist())]


def test_adapters_that_do_not_fit(tmp_path: Path) -> None:
    unknown = write(theirs, tmp_path / "unknown", other=DOWN)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(Path(unknown).read_bytes()[:40])
    calls: list[Any] = [
        lambda engine: engine.InferenceSession(adapted_model()).run(None, {"x": X}, active(engine, unknown)),
        lambda engine: active(engine, str(damaged)),
        lambda engine: engine.AdapterFormat.read_adapter(str(tmp_path / "missing")),
        lambda engine: engine.AdapterFormat.read_adapter(__file__),
        lambda engine: engine.RunOptions().add_active_adapter(3),
        lambda engine: engine.LoraAdapter().Load(tmp_path),
        lambda engine: engine.AdapterFormat().set_parameters({"a": DOWN}),
    ]
    expected = ["InvalidArgument", *["RuntimeError"] * 3, "TypeError", "TypeError", "AttributeError"]
    assert [same(call) for call in calls] == expected


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "adapter"
    data = Path(write(theirs, path, down=DOWN, up=UP)).read_bytes()
    for at in range(8, len(data)):
        for changed in (data[:at], data[:at] + b"\xff" + data[at + 1 :], data[:at] + b"\0" + data[at + 1 :]):
            path.write_bytes(changed)
            try:
                found = ours.AdapterFormat.read_adapter(str(path)).get_parameters()
                assert sum(value.tensor_size_in_bytes() for value in found.values()) <= len(data)
            except RuntimeError as error:
                assert str(path) in str(error)
