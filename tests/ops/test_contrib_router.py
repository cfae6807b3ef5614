"""MoEGroupRouter of ONNX Runtime's domain, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .contrib import compare, normal, refused

FULL = ("", "selection", "weights")
"""All scores, without a choice."""


def settings(groups: int = 1, kept: int = 1, best: int = 1, experts: int = 3) -> dict[str, Any]:
    return {
        "n_group": groups, "topk_group": kept, "group_topk": best, "top_k": experts, "router_sentinel": -50.0,
    }  # fmt: skip


@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 8)])
@pytest.mark.parametrize("given", [(4, 2, 2, 3), (1, 1, 1, 2), (2, 1, 9, 4), (8, 3, 1, 3)])
def test_experts_of_the_best_groups(shape: tuple[int, ...], given: tuple[int, ...]) -> None:
    compare("MoEGroupRouter", [normal(*shape), normal(8)], symbolic=True, **settings(*given))


def test_routers_of_16_bits() -> None:
    feeds = [normal(5, 8, dtype=np.float16), normal(8)]
    compare("MoEGroupRouter", feeds, tolerance=4e-3, **settings(4, 2, 2))


def test_scores_of_all_experts_agree_with_onnxruntime() -> None:
    compare("MoEGroupRouter", [normal(5, 8), normal(8)], FULL, **settings())
    projected = [normal(5, 256) / 16, normal(8), normal(8, 256)]
    compare("MoEGroupRouter", projected, FULL, tolerance=1e-4, **settings())


@pytest.mark.parametrize("given", [(3, 1, 1), (4, 5, 1), (4, 1, 0)])
def test_groups_that_do_not_match_are_refused(given: tuple[int, ...]) -> None:
    message = refused("MoEGroupRouter", [normal(5, 8), normal(8)], **settings(*given))
    assert "n_group must divide the number of experts" in message
