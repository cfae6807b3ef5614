"""The ONNX frontend reads damaged models or raises a GraphwrightError, whatever the bytes."""

from __future__ import annotations

import subprocess
import sys

import onnxruntime
import pytest

from graphwright.frontends.onnx import load
from tests.fuzz.onnx_bytes import SEEDS, mutant, parses, seed_bytes, timed_attempt

MUTANTS = 2400
SECONDS = 2.0
"""No mutant may take longer."""


@pytest.mark.parametrize("index", range(len(SEEDS)))
def test_the_seeds_are_valid_models(index: int) -> None:
    onnxruntime.InferenceSession(seed_bytes(index))
    load(seed_bytes(index))


def test_mutants_are_read_or_rejected() -> None:
    outcomes: dict[str, int] = {}
    for number in range(MUTANTS):
        outcome, taken = timed_attempt(number)
        if taken > SECONDS:  # a garbage collection of the whole process is not the mutant's; it comes once
            outcome, taken = timed_attempt(number)
        assert taken < SECONDS, f"mutant {number} took too long"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert sum(outcomes.values()) == MUTANTS >= 2000
    assert sum(parses(mutant(number)) for number in range(MUTANTS)) >= MUTANTS // 2
    assert outcomes["read"] > MUTANTS // 20, "mutants must reach deep into the frontend"
    assert len(outcomes) > 8, f"mutants must fail in many ways: {outcomes}"


@pytest.mark.parametrize("first", [MUTANTS])
def test_mutants_do_not_kill_a_process_of_bounded_memory(first: int) -> None:
    command = [sys.executable, "-m", "tests.fuzz.onnx_bytes", str(first), str(first + 600)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["600", "mutants"]
