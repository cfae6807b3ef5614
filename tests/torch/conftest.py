"""Each test starts without compiled graphs of other tests, and compiles its own programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from graphwright.program_cache import ProgramCache


@pytest.fixture(autouse=True, scope="session")
def _guards_are_not_timed() -> Iterator[None]:
    """PyTorch evicts the caches of the CPU at each compilation, to log how long its guards take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch._dynamo.guards.profile_guard_manager", lambda *_: 0.0)
        yield


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgramCache, "is_used", lambda self: False)
