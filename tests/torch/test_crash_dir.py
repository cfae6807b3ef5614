"""A crash in a graph of ``torch.compile`` writes the arguments of the call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from graphwright.ir.arrays import Array
from graphwright.runtime.crashes.folder import RecordingExecutor


def test_calls_are_recorded_if_a_folder_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[list[tuple[int, ...]]] = []
    run = RecordingExecutor.run

    def spy(
        self: RecordingExecutor, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        recorded.append([array.shape for array in arrays])
        return run(self, arrays, outputs, threads)

    monkeypatch.setattr(RecordingExecutor, "run", spy)
    monkeypatch.setenv("GRAPHWRIGHT_CRASH_DIR", str(tmp_path))
    step = torch.compile(lambda x: torch.sigmoid(x) * 2, backend="graphwright")
    for _ in range(2):
        torch.testing.assert_close(step(torch.zeros(3, 5)), torch.ones(3, 5))
    assert recorded == [[(3, 5)], [(3, 5)]]
    assert len(list((tmp_path / "models").glob("*.om"))) == 1
