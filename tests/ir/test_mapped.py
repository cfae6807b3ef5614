"""Mapped files: pages are released, their content stays readable, and no other memory is released."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from graphwright.ir.constants.digest import digest
from graphwright.ir.constants.mapped import MappedFile, equal_bytes, mapped_file, release

PAGES = 64
SIZE = PAGES * mmap.PAGESIZE + 100


@pytest.fixture
def file(tmp_path: Path) -> MappedFile:
    (tmp_path / "data").write_bytes(np.random.default_rng(0).bytes(SIZE))
    return MappedFile.open(tmp_path / "data")


def resident(file: MappedFile) -> int:
    """Pages of ``file`` that are mapped in this process, by Linux's own count."""
    address = np.frombuffer(file, np.uint8).__array_interface__["data"][0]
    maps = Path("/proc/self/smaps").read_text().splitlines()
    at = next(k for k, line in enumerate(maps) if line.startswith(f"{address:x}-"))
    line = next(line for line in maps[at:] if line.startswith("Rss:"))
    return int(line.split()[1]) * 1024 // mmap.PAGESIZE


def test_pages_are_given_back_and_found_again(file: MappedFile) -> None:
    array = np.frombuffer(file, np.uint8)
    before = array.copy()
    assert resident(file) == PAGES + 1
    release(array[5 * mmap.PAGESIZE : 9 * mmap.PAGESIZE])
    assert resident(file) == PAGES + 1 - 4
    release(array)
    assert resident(file) == 0
    assert np.array_equal(array, before)


@pytest.mark.parametrize("make", [
    lambda f: np.frombuffer(f, np.uint8),
    lambda f: np.frombuffer(memoryview(f)[64:640], np.float32).reshape(12, 12).T[::-1, 1:],
    lambda f: np.broadcast_to(np.frombuffer(f, np.uint8, 1, 77), (3, 4)),
    lambda f: memoryview(f)[10:20],
])  # fmt: skip
def test_every_view_of_a_file_is_known(file: MappedFile, make: object) -> None:
    view = make(file)  # type: ignore[operator]
    assert mapped_file(view) is file
    expected = np.asarray(view).tobytes()
    release(view)
    assert np.asarray(view).tobytes() == expected


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_other_memory_keeps_its_content(size: int) -> None:
    anonymous = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for array in (np.full(size, 7, np.uint8), np.frombuffer(anonymous, np.uint8, size)):
        if array.flags.writeable:
            array[:] = 7
        release(array)
        assert mapped_file(array) is None and (array == 7).all()


def test_hashing_releases_the_pages(tmp_path: Path) -> None:
    size = 16 << 20
    (tmp_path / "large").write_bytes(np.random.default_rng(0).bytes(size))
    file = MappedFile.open(tmp_path / "large")
    array = np.frombuffer(file, np.uint8)
    copied = digest(array.copy())
    release(array)
    assert digest(array) == copied
    assert resident(file) * mmap.PAGESIZE < size // 2  # what the system reads ahead of the last bytes


@pytest.mark.parametrize("size", [0, 1, 2, 5, 7, 11])
def test_equal_bytes_are_found_in_parts(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphwright.ir.constants.mapped._COMPARED", 3)
    a = np.arange(size, dtype=np.uint8)
    assert equal_bytes(a, a.copy())
    for place in range(size):
        b = a.copy()
        b[place] ^= 1
        assert not equal_bytes(a, b)
