"""Temporary folders, shared by the tests of a session."""

from __future__ import annotations

import pytest

from graphwright.config import Options


@pytest.fixture(scope="session")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    home = tmp_path_factory.mktemp("gears")
    return Options(cache_dir=home / "cache", key_dir=home / "keys", threads=1)
