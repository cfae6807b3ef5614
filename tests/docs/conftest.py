from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

import graphwright as gw
from benchmarks.models import MODELS
from tests.docs.pages import ROOT
from tests.plugins.support import MODELS as PLUGIN_MODELS
from tests.plugins.support import isolated, node_model
from tests.runtime.recurrent import recurrent


@pytest.fixture(scope="session")
def example_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``model.onnx`` (a small model), ``model.om``, examples of plugins, and their models."""
    made = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "examples", made / "examples")
    for name, nodes in PLUGIN_MODELS.items():
        onnx.save(node_model(*nodes), made / f"{name}.onnx")
    with isolated():
        for name in ("median", "l2_normalize"):
            gw.plugins.load(made / "examples" / "plugins" / f"{name}.py")
            gw.compile(made / f"{name}.onnx").save(made / f"{name}.om")
    (made / "recurrent.onnx").write_bytes(recurrent())
    shutil.copy(MODELS["ppocr_cls"].path(), made / "model.onnx")
    gw.compile(made / "model.onnx").save(made / "model.om")
    return made


@pytest.fixture
def folder(example_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example models for one test, as the current folder."""
    shutil.copytree(example_models, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
