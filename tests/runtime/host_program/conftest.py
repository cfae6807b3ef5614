from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

import graphwright as gw
from graphwright.config import Options
from tests.runtime.host_program.models import MODELS, Partitioned


@pytest.fixture(scope="session")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """Options of a user with a key and a kernel cache of their own."""
    home = tmp_path_factory.mktemp("home")
    return Options(key_dir=home / "keys", cache_dir=home / "cache", verify=True)


@pytest.fixture(scope="session")
def compiled(options: Options) -> Callable[[str], tuple[Partitioned, gw.Model]]:
    """A model of :mod:`tests.runtime.host_program.models` by name, and what it was compiled to."""

    @cache
    def made(name: str) -> tuple[Partitioned, gw.Model]:
        known = MODELS[name]()
        return known, gw.compile(known.model, options=options)

    return made
