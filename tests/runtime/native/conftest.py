from __future__ import annotations

import pytest

from graphwright import _native
from tests.runtime.native.handmade import build_kernels


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> _native.Library:
    return _native.load_library(build_kernels(tmp_path_factory.mktemp("kernels")))
