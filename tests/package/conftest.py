from __future__ import annotations

from pathlib import Path

import pytest

import graphwright as gw
from graphwright.config import Options
from tests.package.models import Classifier


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier()


@pytest.fixture(scope="session")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """Options of a user with a key and a kernel cache of their own."""
    home = tmp_path_factory.mktemp("home")
    return Options(key_dir=home / "keys", cache_dir=home / "cache")


@pytest.fixture(scope="session")
def model(classifier: Classifier, options: Options) -> gw.Model:
    return gw.compile(classifier.onnx(), options=options)


@pytest.fixture(scope="session")
def package_path(model: gw.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packages") / "classifier.om"
    model.save(path)
    return path
