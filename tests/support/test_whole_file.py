"""Files are written completely or not at all, and some existing files are never replaced."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from graphwright.support.whole_file import whole_file
from graphwright.support.whole_folder import whole_folder


def write(path: Path, data: bytes = b"new") -> None:
    with whole_file(path) as file:
        file.write(data)


def test_a_file_appears_or_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, b"old")
    with whole_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("fault", [ValueError(), KeyboardInterrupt(), OSError("no number")])
def test_nothing_changes_if_the_block_raises(tmp_path: Path, fault: BaseException) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(type(fault)) as raised, whole_file(path) as file:
        file.write(b"new")
        raise fault
    assert raised.value is fault
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x"]


def test_writing_through_a_link_replaces_its_target(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("there", "absent"):
        link, target = tmp_path / f"to_{name}", tmp_path / "folder" / name
        link.symlink_to(f"folder/{name}")
        if name == "there":
            target.write_bytes(b"old")
        write(link)
        assert link.is_symlink() and target.read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path / "folder")) == ["absent", "there"]


def test_the_error_names_the_file_if_the_working_folder_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir("gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError) as raised:
        write(Path("x"))
    assert raised.value.filename == "x"


def test_a_pipe_is_written(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join(60)
    assert read == [b"new"] and path.is_fifo() and os.listdir(tmp_path) == ["pipe"]


def test_errors_name_the_path(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "folder", tmp_path / "absent/x", tmp_path / "folder/file/x", tmp_path / "loop"):
        with pytest.raises(OSError) as raised:
            write(path)
        assert raised.value.filename == str(path) and raised.value.errno
    assert sorted(os.listdir(tmp_path)) == ["folder", "loop"]


def test_several_files_appear_or_none(tmp_path: Path) -> None:
    """A folder at the path of the last file prevents all of them; the error names it."""
    (tmp_path / "b").mkdir()
    with pytest.raises(IsADirectoryError) as raised, whole_file(tmp_path / "a") as first:
        first.write(b"new")
        write(tmp_path / "b")
    assert raised.value.filename == str(tmp_path / "b")
    assert os.listdir(tmp_path) == ["b"]


def test_a_folder_is_created_at_the_end_of_the_block(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "f", {"inner/x": "new"}):
        assert not (tmp_path / "f").exists()
    assert (tmp_path / "f/inner/x").read_text() == "new"
    with pytest.raises(ValueError), whole_folder(tmp_path / "g", {"x": "new"}):
        raise ValueError
    assert os.listdir(tmp_path) == ["f"]
