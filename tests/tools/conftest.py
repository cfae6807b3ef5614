"""The commands use temporary folders instead of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from .support import write_model


@pytest.fixture(scope="session")
def user_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kernels and signing key, shared by the tests of a session."""
    return tmp_path_factory.mktemp("user")


@pytest.fixture(autouse=True)
def _own_folders(user_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHWRIGHT_CACHE_DIR", str(user_folder / "cache"))
    monkeypatch.setenv("GRAPHWRIGHT_KEY_DIR", str(user_folder / "key"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)  # tables fit a terminal, and take what they need elsewhere


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """``y = relu(x @ w)`` with ``x: f32[N, 4]``."""
    return write_model(tmp_path / "model.onnx")
