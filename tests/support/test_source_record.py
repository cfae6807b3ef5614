"""The record of sources in a library, and the warning about a library that is older than its sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphwright.log import _WARNED
from graphwright.runtime.devices.kernel_library import _warn_if_outdated
from graphwright.support.source_record import changed_sources, record_of


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library that was built after its sources a.py, b.py and c.h."""
    for name in ("a.py", "b.py", "c.h"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1000, 1000))
    library = tmp_path / "library.so"
    library.write_text("")
    os.utime(library, (2000, 2000))
    return library


def _record(library: Path) -> str:
    return record_of(library.parent, library.parent.glob("?.*"))


def test_sources_that_are_as_built(library: Path) -> None:
    record = _record(library)
    (library.parent / "b.py").write_text("b.py")  # newer, with the same content
    assert changed_sources(library, record, library.parent) == []


def test_changed_and_missing_sources_are_found(library: Path) -> None:
    record = _record(library)
    (library.parent / "b.py").write_text("another text")
    (library.parent / "c.h").unlink()
    assert changed_sources(library, record, library.parent) == ["b.py", "c.h"]


def test_an_outdated_library_is_reported_once(
    library: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "graphwright.runtime.devices.kernel_library.LIBRARY_FOLDER", library.parent / "x" / "y"
    )
    monkeypatch.setattr("graphwright.log._WARNED", _WARNED - {"outdated kernels"})
    record = _record(library)
    for name in ("a.py", "b.py"):
        (library.parent / name).write_text("another text")
    _warn_if_outdated(library, record)
    _warn_if_outdated(library, record)
    assert caplog.messages == [
        "the kernel library was built before a.py and 1 other file changed: build it again with "
        f"pip install -e {library.parents[2]}"
    ]
