"""ONNX's backend interface, as scripts for onnxruntime.backend call it."""

from __future__ import annotations

import unittest
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test.runner
import onnxruntime.backend as their_backend
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.case.test_case import TestCase

import graphwright.onnxruntime as ours
from graphwright.onnxruntime import backend
from graphwright.onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from .support import ROW, ROWS, copied, sums


@pytest.mark.parametrize("form", ["proto", "bytes", "path", "session", "prepared"])
def test_prepare_accepts_every_form_of_a_model(form: str, tmp_path: Path) -> None:
    data = sums()
    (tmp_path / "m.onnx").write_bytes(data)
    source = {
        "proto": onnx.load_from_string(data),
        "bytes": data,
        "path": str(tmp_path / "m.onnx"),
        "session": ours.InferenceSession(data),
        "prepared": backend.prepare(data),
    }[form]
    total, less = backend.prepare(source, "CPU").run([ROWS, ROW])
    np.testing.assert_array_equal(total, ROWS + ROW)
    np.testing.assert_array_equal(less, -ROWS)


def test_run_gives_what_onnxruntime_gives() -> None:
    mine = backend.run(sums(), [ROWS, ROW], "CPU", intra_op_num_threads=1)
    wanted = their_backend.run(sums(), [ROWS, ROW], "CPU", intra_op_num_threads=1)
    assert [a.tolist() for a in mine] == [a.tolist() for a in wanted]


def test_inputs_are_a_list_a_dict_or_the_only_one() -> None:
    one = backend.prepare(copied(TensorProto.FLOAT))
    for inputs in (ROW, [ROW], {"x": ROW}):
        np.testing.assert_array_equal(one.run(inputs)[0], ROW)
    with pytest.raises(RuntimeError, match="The model has 2 inputs, 1 are given: a, b"):
        backend.prepare(sums()).run([ROWS])
    with pytest.raises(InvalidArgument):
        backend.prepare(sums()).run([ROW, ROW])


def test_the_backend_supports_the_cpu_alone() -> None:
    assert [backend.supports_device(name) for name in ("CPU", "CPU:0", "CUDA", "CUDA:1")] == [
        True,
        True,
        False,
        False,
    ]
    assert backend.is_compatible(sums()) and not backend.is_compatible(sums(), "CUDA")
    with pytest.raises(RuntimeError, match="'CUDA'"):
        backend.prepare(sums(), "CUDA")


def test_run_node_computes_one_node() -> None:
    node = helper.make_node("Clip", ["x", "", "most"], ["y"])
    (found,) = backend.run_node(node, [ROWS, np.float32(3)])
    np.testing.assert_array_equal(found, np.minimum(ROWS, 3))
    (found,) = backend.run_node(helper.make_node("Clip", ["x"], ["y"], max=2.0), ROWS, opset_version=6)
    np.testing.assert_array_equal(found, np.minimum(ROWS, 2))
    (found,) = backend.run_node(
        helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=2.5), [ROWS]
    )
    np.testing.assert_array_equal(found, (ROWS > 2.5).astype(np.float32))


def test_onnx_s_own_tests_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX's test runner takes the backend; one model replaces the two thousand models that it loads."""
    data = [([ROWS, ROW], [ROWS + ROW, -ROWS])]
    case = TestCase("test_sums", "sums", None, None, onnx.load_from_string(sums()), data, "node", 0, 0)
    monkeypatch.setattr(onnx.backend.test.runner, "load_model_tests", lambda kind: [case] * (kind == "node"))
    result = unittest.TestResult()
    onnx.backend.test.BackendTest(backend, __name__).test_suite.run(result)
    assert result.wasSuccessful() and result.testsRun == 2
    assert [reason for _, reason in result.skipped] == ["Backend doesn't support device CUDA"]
