"""Bad models, end to end: answers or a clear error, in bounded time and memory, and the process lives."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import graphwright as gw
from tests.robustness import cases, mutants
from tests.robustness.attempt import RAN, TOO_LARGE
from tests.robustness.limits import Outcome, outcomes

ON_CPU, ON_NULL = range(0, 400), range(700, 1500)
"""Mutants that run, and those that are compiled and planned alone; the rest of the path is the same."""
BATCH = 400
CASE_SECONDS = 20.0
MUTANT_SECONDS = 5.0


@pytest.fixture(scope="module")
def found() -> dict[str, Outcome]:
    return {
        outcome.name: outcome
        for outcome in outcomes("case", "cpu", sorted(cases.REFUSED | cases.EITHER), 240)
    }


@pytest.mark.parametrize("name", cases.REFUSED)
def test_invalid_models_are_rejected(found: dict[str, Outcome], name: str) -> None:
    outcome = found.get(name)
    assert outcome is not None, f"the process died before: {list(found.values())[-1]}"
    assert outcome.ok, outcome
    assert outcome.text not in (RAN, TOO_LARGE)
    assert outcome.seconds < CASE_SECONDS


@pytest.mark.parametrize("name", cases.EITHER)
def test_models_that_need_too_much_end_soon(found: dict[str, Outcome], name: str) -> None:
    outcome = found.get(name)
    assert outcome is not None, f"the process died before: {list(found.values())[-1]}"
    assert outcome.ok, outcome
    assert outcome.seconds < CASE_SECONDS


@pytest.mark.parametrize(
    ("device", "numbers"),
    [
        (device, numbers[start : start + BATCH])
        for device, numbers in (("cpu", ON_CPU), ("null", ON_NULL))
        for start in range(0, len(numbers), BATCH)
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.start),
)
def test_mutants_give_answers_or_an_error(device: str, numbers: range) -> None:
    made = outcomes("mutant", device, list(map(str, numbers)), 120)
    assert [o for o in made if not o.ok] == []
    assert len(made) == len(numbers)
    assert max(o.seconds for o in made) < MUTANT_SECONDS, max(made, key=lambda o: o.seconds)
    assert sum(o.text == RAN for o in made) >= len(numbers) // 20, "mutants must go all the way"
    assert len({o.text for o in made}) >= 8, "mutants must fail in many ways"


def test_half_of_the_mutants_can_be_parsed() -> None:
    numbers = range(2000)
    assert sum(mutants.parses(mutants.mutant(n)) for n in numbers) >= len(numbers) // 2


def small() -> bytes:
    return cases.model([cases.node("Relu", "x", "y")])


@pytest.mark.parametrize("share", [0, 0.3, 0.7, 0.95])
def test_truncated_files_are_rejected(tmp_path: Path, share: float) -> None:
    file = tmp_path / "short.onnx"
    data = cases.model([cases.node("Add", "x w", "y")], [cases.tensor("w", np.ones((64, 4), np.float32))])
    file.write_bytes(data[: int(share * len(data))])
    with pytest.raises(gw.ModelError):
        gw.compile(file)


def test_paths_that_are_not_models_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("not a model\n" * 50)
    for path in (tmp_path, tmp_path / "absent.onnx", tmp_path / "text.onnx"):
        with pytest.raises(gw.GraphwrightError, match=str(path.name)):
            gw.compile(path)


def test_a_save_that_fails_leaves_nothing(tmp_path: Path) -> None:
    model = gw.compile(small())
    with pytest.raises((gw.GraphwrightError, OSError)):
        model.save(tmp_path / "nowhere" / "model.om")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "taken").mkdir()
    with pytest.raises((gw.GraphwrightError, OSError)):
        model.save(tmp_path / "taken")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]
    assert list((tmp_path / "taken").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_save_to_a_full_disk_keeps_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, file = gw.compile(small()), tmp_path / "model.om"
    model.save(file)
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises((gw.GraphwrightError, OSError)):
        model.save(file)
    assert file.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.om"]
    assert stat.S_ISREG(file.stat().st_mode)


def test_feeds_that_do_not_fit_are_rejected() -> None:
    model = gw.compile(small())
    right = np.zeros((2, 4), np.float32)
    wrong = (
        right.astype(np.float64),
        right.astype(np.int32),
        right[0],
        right[None],
        right[:, :3],
        "text",
        None,
        {},
    )
    for array in wrong:
        with pytest.raises(gw.FeedError, match="x"):
            model.run({"x": array})
    with pytest.raises(gw.FeedError, match="missing"):
        model.run({})
    with pytest.raises(gw.FeedError, match="there is no input 'z'"):
        model.run({"x": right, "z": right})
    np.testing.assert_array_equal(model.run({"x": np.asfortranarray(right)})["y"], right)
