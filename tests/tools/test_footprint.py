"""Memory as the operating system counts it, against sizes that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphwright as gw
from graphwright.ops.core.matmul import MatMul
from graphwright.tools.measuring.footprint import FootprintError, measure

from .support import graphwright

WEIGHT_BYTES = 32 << 20


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """``y = x @ w`` with 32 MiB of weights."""
    builder = gw.GraphBuilder()
    w = np.random.default_rng(0).standard_normal((2048, WEIGHT_BYTES // 4 // 2048), np.float32)
    builder.output("y", builder(MatMul(), builder.input("x", "f32", (4, 2048)), builder.constant(w)))
    path = tmp_path / "m.om"
    builder.compile().save(path)
    return path


def test_copied_weights_count_and_mapped_ones_do_not(package: Path) -> None:
    feeds = {"x": np.ones((4, 2048), np.float32)}
    copied = measure("graphwright", package, feeds)
    mapped = measure("graphwright", package, feeds, mapped=True)
    for found in (copied, mapped):
        assert 0 < found.before < found.peak >= found.after > 0
    assert WEIGHT_BYTES < copied.increase < WEIGHT_BYTES + (16 << 20)
    assert mapped.increase < 16 << 20


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(FootprintError, match=r"nowhere\.om"):
        measure("graphwright", tmp_path / "nowhere.om", {})


def test_inspect_measures_packages_alone(model: Path, package: Path) -> None:
    shown = graphwright("inspect", package, "--measure").stdout
    assert "weights copied to memory" in shown and "weights mapped from the file" in shown
    refused = graphwright("inspect", model, "--shape", "x:1,4", "--measure")
    assert refused.exit_code != 0 and "--measure" in refused.output
