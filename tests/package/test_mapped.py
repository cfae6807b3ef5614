"""Packages that stay mapped while their file is overwritten: only the checked bytes are used."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.package import read
from graphwright.package.package import WEIGHTS
from graphwright.package.read import read_package
from graphwright.package.read_archive import read_archive
from graphwright.package.sign import user_key
from tests.executables import targets
from tests.package.damage import members_of
from tests.package.lookup import ROWS, lookup
from tests.package.models import Classifier

TABLE = np.linspace(0, 1, 40, dtype=np.float32).reshape(10, 4)


@pytest.fixture
def path(package_path: Path, tmp_path: Path) -> Path:
    """A file of its own, to be written to."""
    return Path(shutil.copy(package_path, tmp_path / "mapped.om"))


def overwrite(path: Path, member: str, data: bytes, offset: int = 0) -> None:
    """Change bytes of a member in the file's own pages, which others have mapped."""
    whole, before = path.read_bytes(), members_of(path)[member]
    with open(path, "r+b") as file:
        file.seek(whole.index(before) + offset)
        file.write(data)


@pytest.mark.parametrize("moment", ["is_signed", "check_members", "check_format"])
def test_the_hashed_bytes_are_the_ones_that_run(
    path: Path, options: Options, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Each member except weights is overwritten with zeros before or after each check. The user owns the
    file, so a signature does not protect it from this writer.
    """
    key = user_key(options.key_folder, create=False)
    assert key is not None
    good, whole = read_package(path, keys=[key]), members_of(path)
    check: Callable[..., Any] = getattr(read, moment)

    def replaced(*operands: Any) -> Any:
        result = check(*operands)
        for name, data in whole.items():
            if name != WEIGHTS:
                overwrite(path, name, bytes(len(data)))
        return result

    monkeypatch.setattr(read, moment, replaced)
    read_mapped = read_package(path, keys=[key], use_mmap=True)
    assert set(path.read_bytes()[:64]) != {0}
    (mine,), (wanted,) = targets(read_mapped).values(), targets(good).values()
    assert mine.objects == wanted.objects and mine.sources == wanted.sources
    assert mine.task_graph == wanted.task_graph
    assert (read_mapped.main.graph, read_mapped.main.inputs) == (good.main.graph, good.main.inputs)


def test_indices_are_copied_and_floats_stay_in_the_file(
    package_path: Path, options: Options, classifier: Classifier, path: Path
) -> None:
    loaded = gw.load(path, mmap=True, options=options)
    before = loaded(classifier.x)[0]
    weights = loaded.package.weights
    floats = [t for t in weights.tensors.values() if t.dtype.is_float]
    start = len(weights.header) + floats[0].start
    overwrite(path, WEIGHTS, bytes(floats[0].size), start)
    assert not np.array_equal(loaded(classifier.x)[0], before)


def test_indices_that_change_in_the_file_do_not_change_in_memory(options: Options, tmp_path: Path) -> None:
    path = tmp_path / "lookup.om"
    gw.compile(lookup(), options=options).save(path)
    loaded = gw.load(path, mmap=True, options=options)
    weights = loaded.package.weights
    indices = {name: t for name, t in weights.tensors.items() if not t.dtype.is_float}
    known = {name: weights.arrays[name].tobytes() for name in indices}
    assert known
    for tensor in indices.values():
        overwrite(path, WEIGHTS, b"\x77" * tensor.size, len(weights.header) + tensor.start)
    assert {name: weights.arrays[name].tobytes() for name in indices} == known
    np.testing.assert_allclose(loaded(TABLE)[0], np.exp(TABLE)[ROWS], rtol=1e-6)
    with pytest.raises(gw.PackageError, match="weights of integers were changed"):
        gw.load(path, mmap=True, options=options)


def test_mapped_members_are_not_written(path: Path) -> None:
    before = path.read_bytes()
    key_of_no_one = bytes(32)
    read_package(path, keys=[key_of_no_one], use_mmap=True)
    assert all(member.readonly for member in read_archive(path, use_mmap=True).values())
    assert path.read_bytes() == before
