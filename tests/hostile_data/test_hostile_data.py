"""Hostile numbers in what data decide: an error or what ONNX says, never memory that is not the operand's."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.hostile_data.cases import CASES
from tests.hostile_data.guarded import PAGE, guarded
from tests.hostile_data.sweep import named

BATCHES = 3
SECONDS = 600
"""For one batch, far above what it needs."""


def test_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 100


@pytest.mark.long
@pytest.mark.parametrize("batch", range(BATCHES))
def test_kernels_survive_hostile_numbers(batch: int) -> None:
    """Static and dynamic sizes alternate from case to case."""
    check([named(case, k % 2 == 1) for k, case in enumerate(CASES)][batch::BATCHES])


@pytest.mark.sweep
@pytest.mark.parametrize("batch", range(BATCHES))
def test_hostile_numbers_with_static_and_dynamic_sizes_swapped(batch: int) -> None:
    """The cases of the test above run with static and dynamic sizes swapped."""
    check([named(case, k % 2 == 0) for k, case in enumerate(CASES)][batch::BATCHES])


def check(names: list[str]) -> None:
    command = [sys.executable, "-m", "tests.hostile_data.sweep", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{lines[-1:]} ended the process:\n{done.stderr[-3000:]}"
    faults = {line["case"]: line["faults"][:3] for line in lines if line.get("faults")}
    assert not faults, "\n".join(f"{name}: {found}" for name, found in faults.items())
    assert {line.get("case") for line in lines} - {None} == set(names)


@pytest.mark.parametrize(("behind", "offset"), [(True, 0), (False, -1)])
def test_an_access_beyond_the_end_stops_the_process(behind: bool, offset: int) -> None:
    """The guard pages work: an access one byte beyond the end stops a process."""
    code = f"""
import ctypes, numpy as np
from tests.hostile_data.guarded import guarded
a = guarded(np.arange(5.0), behind={behind})
assert a.tolist() == [0, 1, 2, 3, 4]
ctypes.string_at(a.ctypes.data + {offset} + ({behind}) * a.nbytes, 1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -11, done.stderr


def test_guarded_arrays_of_all_sizes() -> None:
    for count in (0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE):
        array = (np.arange(count) % 251).astype(np.uint8)
        for behind in (True, False):
            np.testing.assert_array_equal(guarded(array, behind=behind), array)
