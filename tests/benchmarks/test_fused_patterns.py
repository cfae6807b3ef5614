"""Measured patterns: each model is one that ONNX allows, and hints keep all its ops apart."""

from __future__ import annotations

import onnx
import pytest

import graphwright as gw
from benchmarks.fusion.fused_graphs import PATTERNS, apart
from graphwright.fusion.decision_text import decode_decisions
from graphwright.fusion.decisions import Verdict


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_are_valid_onnx_models(name: str) -> None:
    onnx.checker.check_model(PATTERNS[name].model(), full_check=True)


@pytest.mark.parametrize("name", ["swiglu 128x896x4864", "resize_concat_conv 32+32 to 32 at 80x80"])
def test_hints_keep_the_ops_apart(name: str) -> None:
    model = PATTERNS[name].model()
    decisions = decode_decisions(gw.compile(apart(model)).entry.decisions)
    taken = [each for each in decisions if each.verdict is Verdict.TAKEN]
    assert not [each for each in taken if len({source for node in each.sources for source in node}) > 1]
