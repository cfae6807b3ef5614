"""``onnxruntime.transformers.io_binding_helper``, with which optimum reads the types of a session."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import onnxruntime as theirs
import pytest
import torch
from onnxruntime.transformers.io_binding_helper import TypeHelper as Theirs

import graphwright.onnxruntime as ours
from graphwright.onnxruntime.transformers.io_binding_helper import TypeHelper as Ours
from tests.onnxruntime.support import outcome, sums

TYPES = [
    *("float", "float16", "double", "bool", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "complex64", "complex128"),
]


def test_every_function_is_here() -> None:
    assert {name for name in dir(Theirs) if name.startswith(("get", "ort", "numpy", "torch"))} <= {*dir(Ours)}


@pytest.mark.parametrize("to", ["numpy", "torch", "onnx"])
@pytest.mark.parametrize("name", TYPES)
def test_names_of_types(name: str, to: str) -> None:
    def converted(helper: Any, given: str) -> Any:
        return outcome(lambda: getattr(helper, f"ort_type_to_{to}_type")(given))

    for given in (f"tensor({name})", name):
        assert converted(Ours, given) == converted(Theirs, given)


@pytest.mark.parametrize("numpy_type", [np.float32, np.int64, np.float16, bool, np.uint8])
def test_types_of_numpy_and_torch(numpy_type: Any) -> None:
    mine = Ours.numpy_type_to_torch_type(numpy_type)
    assert mine == Theirs.numpy_type_to_torch_type(numpy_type)
    assert Ours.torch_type_to_numpy_type(mine) == Theirs.torch_type_to_numpy_type(mine) == numpy_type


def test_types_that_onnxruntime_has_no_array_for() -> None:
    assert Ours.ort_type_to_torch_type("tensor(bfloat16)") == torch.bfloat16
    assert Ours.ort_type_to_torch_type("tensor(float8e4m3fn)") == torch.float8_e4m3fn
    assert str(np.dtype(Ours.ort_type_to_numpy_type("tensor(bfloat16)"))) == "bfloat16"
    for refused in ("ort_type_to_numpy_type", "ort_type_to_torch_type"):
        with pytest.raises(ValueError, match=r"no element type for strings|no dtype for string"):
            getattr(Ours, refused)("tensor(string)")


def test_types_of_a_session() -> None:
    session, other = ours.InferenceSession(sums()), theirs.InferenceSession(sums())
    for name in ("get_io_numpy_type_map", "get_io_torch_type_map", "get_io_onnx_type_map"):
        assert getattr(Ours, name)(session) == getattr(Theirs, name)(other)
    assert Ours.get_input_type(session, "a") == Ours.get_output_type(session, "less") == "tensor(float)"
    with pytest.raises(ValueError, match="output name a not found: the model has total, less"):
        Ours.get_output_type(session, "a")


def test_unsupported_modules_of_transformers_name_an_alternative() -> None:
    script = """
import sys
import sympy, torch  # TypeHelper needs them
import graphwright.onnxruntime
graphwright.onnxruntime.install()
sys.path = [place for place in sys.path if "site-packages" not in place]  # onnxruntime is not installed
from onnxruntime.transformers.io_binding_helper import TypeHelper
print(TypeHelper.ort_type_to_torch_type("tensor(float)"))
for part in ("optimizer", "float16", "fusion_options", "onnx_model"):
    try:
        __import__(f"onnxruntime.transformers.{part}")
    except ImportError as error:
        assert f"for onnxruntime.transformers.{part}, install the onnxruntime package" in str(error), error
    else:
        raise SystemExit(part)
try:
    from onnxruntime.transformers import optimizer
except ImportError as error:
    assert "in a process of its own" in str(error), error
else:
    raise SystemExit("optimizer")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torch.float32\n"
