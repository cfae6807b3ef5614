"""Every way in which packages import onnxruntime works after one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

REPLACE = {
    "sys.modules": """
import sys, graphwright.onnxruntime
sys.modules["onnxruntime"] = graphwright.onnxruntime
""",
    "install": "import graphwright.onnxruntime\ngraphwright.onnxruntime.install()\n",
}


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("way", REPLACE)
def test_imports_of_all_forms(way: str) -> None:
    done = run(
        REPLACE[way]
        + """
import importlib.util
import onnxruntime
import onnxruntime as ort
import onnxruntime.capi.onnxruntime_pybind11_state
import onnxruntime.capi.onnxruntime_pybind11_state as state
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions, get_available_providers
from onnxruntime import LoraAdapter, SparseTensor
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi._pybind_state import Fail
from onnxruntime.backend import prepare
from onnxruntime.backend.backend import OnnxRuntimeBackend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep
from onnxruntime.capi.onnxruntime_inference_collection import OrtValue
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile

assert ort.__name__ == "graphwright.onnxruntime", ort
assert prepare == OnnxRuntimeBackend.prepare
assert importlib.util.find_spec("onnxruntime") is not None
assert ort.capi.onnxruntime_pybind11_state.Fail is Fail is C.Fail is state.Fail
assert OrtValue is ort.OrtValue and C.get_available_providers() == get_available_providers()
try:
    InferenceSession("/nowhere.onnx")
except NoSuchFile as error:
    print("caught", error)
sys.path = [place for place in sys.path if "site-packages" not in place]  # onnxruntime is not installed
for part in ("quantization", "tools", "datasets", "quantization.calibrate", "transformers.optimizer"):
    try:
        __import__(f"onnxruntime.{part}")
    except ModuleNotFoundError as error:
        assert "in a process of its own" in str(error), error
    else:
        raise SystemExit(part)
files = [str(getattr(module, "__file__", "")) for module in sys.modules.values()]
assert not [file for file in files if "site-packages/onnxruntime" in file]
""".replace("import importlib.util", "import importlib.util, sys")
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("caught [ONNXRuntimeError] : 3 : NO_SUCHFILE")


def test_packages_find_no_training() -> None:
    """As in ONNX Runtime's package for inference: they look for the module, or for its folder."""
    for start in ("import onnxruntime", REPLACE["install"] + "import onnxruntime"):
        done = run(
            start
            + """
import importlib.util, os
assert importlib.util.find_spec("onnxruntime.training") is None
assert not any(os.path.exists(os.path.join(place, "training")) for place in onnxruntime.__path__)
try:
    import onnxruntime.training
except ModuleNotFoundError as error:
    print(error)
"""
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "No module named 'onnxruntime.training'\n"


def test_install_after_an_import_of_onnxruntime_is_an_error() -> None:
    done = run("import onnxruntime, graphwright.onnxruntime\ngraphwright.onnxruntime.install()")
    assert done.returncode == 1 and "onnxruntime is imported already, from" in done.stderr


def test_install_twice_is_no_fault() -> None:
    assert run(REPLACE["install"] + "graphwright.onnxruntime.install()").returncode == 0


def test_nothing_else_imports_it() -> None:
    names = "import graphwright as gw, sys; gw.InferenceSession; gw.compile"
    done = run(f"{names}; print('graphwright.onnxruntime' in sys.modules)")
    assert done.stdout == "False\n"
