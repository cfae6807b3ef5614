"""An ``.om`` runs with NumPy and the runtime alone: no compiler, no onnx, no torch, no C toolchain."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphwright as gw
from benchmarks.models import MODELS
from graphwright import _native
from graphwright.config import Options
from graphwright.runtime.devices.kernel_library import LIBRARY_FOLDER
from tests.package.models import Classifier

Array = np.ndarray[Any, Any]
SOURCES = Path(__file__).parents[2] / "src" / "graphwright"

RUN = """
import sys

ALLOWED = (
    "graphwright._native graphwright.config graphwright.errors graphwright.loading graphwright.lazy_compiler "
    "graphwright.executable graphwright.package graphwright.runtime graphwright.ir.arrays "
    "graphwright.ir.default_values graphwright.ir.dtypes graphwright.support.escaping "
    "graphwright.ir.constants.conversion graphwright.ir.constants.deferred graphwright.ir.constants.mapped "
    "graphwright.ir.pytree graphwright.low_ir.wire graphwright.records graphwright.log "
    "graphwright.option_files graphwright.option_values graphwright.support.gc_pause "
    "graphwright.support.background graphwright.support.message_text graphwright.support.file_kinds "
    "graphwright.support.fork_lock graphwright.support.event_sink graphwright.support.source_record"
).split()
PACKAGES = {"graphwright", *(f"graphwright.{name}" for name in ("ir", "ir.constants", "low_ir", "support"))}
OUTSIDE = sys.stdlib_module_names | {"numpy", "graphwright"}


class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in OUTSIDE:
            raise ImportError(f"{name} is not to be imported")
        ours = name.startswith("graphwright.") and name not in PACKAGES
        if ours and not any(name == known or name.startswith(known + ".") for known in ALLOWED):
            raise ImportError(f"{name} is not part of the runtime")
        return None


package, feed, result = sys.argv[1:]
import numpy as np
sys.meta_path.insert(0, Guard())
import graphwright as gw

model = gw.load(package, trust=True)
np.save(result, model(np.load(feed))[0])
assert model.stats()["host_calls"] == 0
"""


def run_alone(python: str, package: Path, x: Array, folder: Path) -> Array:
    """The first output of a package, run by another interpreter without a compiler in its PATH."""
    script, feed, result = folder / "run.py", folder / "x.npy", folder / "y.npy"
    script.write_text(RUN)
    np.save(feed, x)
    (folder / "empty").mkdir()
    environment = {"PATH": str(folder / "empty"), "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, str(script), str(package), str(feed), str(result)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    array: Array = np.load(result)
    return array


def environment_with_numpy(folder: Path) -> Path:
    """The interpreter of a fresh environment that holds NumPy and a copy of graphwright."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    for package in ("numpy", "numpy.libs"):
        if (source := Path(np.__file__).parents[1] / package).exists():
            (site / package).symlink_to(source)
    shutil.copytree(SOURCES, site / "graphwright", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(_native.__file__, site / "graphwright")
    for library in LIBRARY_FOLDER.glob("*.so"):
        shutil.copy(library, site / "graphwright" / "runtime" / "native")
    return folder / "bin" / "python"


def test_package_runs_on_the_runtime_alone(
    package_path: Path, classifier: Classifier, tmp_path: Path
) -> None:
    y = run_alone(sys.executable, package_path, classifier.x, tmp_path)
    np.testing.assert_allclose(y, classifier.value(classifier.x), rtol=1e-4, atol=1e-6)


def test_package_runs_in_an_environment_with_numpy_only(
    package_path: Path, classifier: Classifier, tmp_path: Path
) -> None:
    y = run_alone(str(environment_with_numpy(tmp_path / "venv")), package_path, classifier.x, tmp_path)
    np.testing.assert_allclose(y, classifier.value(classifier.x), rtol=1e-4, atol=1e-6)


@pytest.mark.models
def test_real_model_runs_on_the_runtime_alone(options: Options, tmp_path: Path) -> None:
    model = MODELS["ppocr_cls"]
    (x,) = model.feeds("default", seed=0).values()
    gw.compile(model.path(), options=options).save(tmp_path / "cls.om")
    y = run_alone(sys.executable, tmp_path / "cls.om", x, tmp_path)
    (expected,) = onnxruntime.InferenceSession(model.path()).run(None, model.feeds("default", seed=0))
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-5)
