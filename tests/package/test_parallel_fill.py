"""Memory filled by several threads: every byte once, and no fault is lost."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from graphwright.ir.constants.deferred import Deferred
from graphwright.ir.types import I64
from graphwright.package import parallel_fill
from graphwright.package.pack_weights import pack_weights
from graphwright.package.parallel_fill import fill_in_threads
from graphwright.package.read_archive import read_archive
from graphwright.package.read_weights import read_weights
from graphwright.package.write_archive import write_archive


@pytest.fixture(params=[1, 2, 3, 7])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(parallel_fill, "PART", 1)
    monkeypatch.setattr(parallel_fill, "MOST_THREADS", request.param)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    return int(request.param)


@pytest.mark.parametrize("size", [0, 1, 2, 13, 1000])
def test_every_byte_is_filled_once(threads: int, size: int) -> None:
    count = np.zeros(size, np.int64)
    ranges: list[tuple[int, int]] = []

    def fill(start: int, stop: int) -> None:
        count[start:stop] += 1
        ranges.append((start, stop))

    fill_in_threads(size, fill)
    assert (count == 1).all()
    assert len(ranges) == max(1, min(threads, size))


def test_an_exception_in_any_part_is_raised(threads: int) -> None:
    def fill(start: int, stop: int) -> None:
        if start <= 70 < stop:
            raise ValueError("part of 70")

    with pytest.raises(ValueError, match="part of 70"):
        fill_in_threads(100, fill)


def test_weights_do_not_depend_on_the_threads(threads: int) -> None:
    arrays = {f"a{k}": np.arange(k * 7, dtype=np.float32) for k in range(9)}
    made = pack_weights(arrays)
    again = read_weights(memoryview(made.header + bytes(made.data)))
    for name, array in arrays.items():
        np.testing.assert_array_equal(made.arrays[name], array)
        np.testing.assert_array_equal(again.arrays[name], array)


def test_files_are_read_whole(threads: int, tmp_path: Path) -> None:
    expected = {"a": b"x" * 1000, "b": bytes(range(256)) * 9}
    write_archive(tmp_path / "x.om", {name: [data] for name, data in expected.items()})
    members = read_archive(tmp_path / "x.om")
    assert {name: bytes(data) for name, data in members.items()} == expected


def test_computed_and_copied_weights_are_packed_side_by_side(threads: int) -> None:
    column = np.arange(6, dtype=np.int64).reshape(3, 2)
    made = pack_weights({
        "copied": column,
        "made": Deferred(I64, (2, 3), lambda out: [lambda: np.copyto(out, column.T)]),
        "empty": Deferred(I64, (0, 3), lambda out: []),
        "text": np.array(["a", "bc"], object),
    })  # fmt: skip
    again = read_weights(memoryview(made.header + bytes(made.data)))
    assert again.arrays["copied"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert again.arrays["made"].tolist() == [[0, 2, 4], [1, 3, 5]]
    assert again.arrays["empty"].shape == (0, 3)
    assert again.arrays["text"].tolist() == ["a", "bc"]
