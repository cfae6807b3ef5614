"""Packages that the tests of the C interface open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.c_api.models import classifier


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of any number of rows, signed with this user's key."""
    path = tmp_path_factory.mktemp("package") / "classifier.om"
    classifier().compile().save(path)
    return path
