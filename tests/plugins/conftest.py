"""Plugins are unregistered after each test; a session has one kernel cache and one signing key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .support import isolated


@pytest.fixture(scope="session")
def user_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("user")


@pytest.fixture(autouse=True)
def _alone(user_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRAPHWRIGHT_CACHE_DIR", str(user_folder / "cache"))
    monkeypatch.setenv("GRAPHWRIGHT_KEY_DIR", str(user_folder / "key"))
    monkeypatch.chdir(tmp_path)
    with isolated():
        yield
