"""The archive: members are aligned, files are written completely or not at all, and other archives are
rejected.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from graphwright.errors import PackageError
from graphwright.package import write_archive as writer
from graphwright.package.read_archive import aligned_memory, open_archive, read_archive
from graphwright.package.write_archive import write_archive
from graphwright.package.zip_directory import ALIGNMENT

MEMBERS = {"a.json": b"{}", "empty": b"", "targets/v4/x.so": bytes(range(16)), "tail": b"x"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_archive(tmp_path / "x.om", {name: [data] for name, data in MEMBERS.items()})
    return tmp_path / "x.om"


@pytest.mark.parametrize("use_mmap", [False, True])
def test_members_come_back_aligned_and_read_only(path: Path, use_mmap: bool) -> None:
    members = read_archive(path, use_mmap=use_mmap)
    assert {name: bytes(data) for name, data in members.items()} == MEMBERS
    for data in members.values():
        assert data.readonly
        if data:
            assert np.frombuffer(data, np.uint8).__array_interface__["data"][0] % ALIGNMENT == 0


def test_any_zip_tool_reads_it(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == MEMBERS


def test_pieces_and_one_piece_give_the_same_bytes(path: Path, tmp_path: Path) -> None:
    halves = {name: [data[:5], memoryview(data[5:])] for name, data in MEMBERS.items()}
    write_archive(tmp_path / "pieces.om", halves)
    assert (tmp_path / "pieces.om").read_bytes() == path.read_bytes()


def test_a_failed_write_keeps_the_existing_file(path: Path) -> None:
    before = path.read_bytes()

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_archive(path, {"x": pieces()})  # type: ignore[dict-item]  # pieces that raise
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        write_archive(tmp_path / "x.om", {"a": [b""]})
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "x.om").stat().st_mode) == 0o640


def written(path: Path, write: Callable[[zipfile.ZipFile], object]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        write(archive)
    return path


def aligned(name: str, compression: int = zipfile.ZIP_STORED) -> zipfile.ZipInfo:
    """A first member whose data starts at byte 64 or 128."""
    info = zipfile.ZipInfo(name)
    info.compress_type = compression
    padding = -(30 + len(name.encode()) + 4) % ALIGNMENT
    info.extra = b"WG" + padding.to_bytes(2, "little") + bytes(padding)
    return info


def test_the_helper_above_is_accepted(tmp_path: Path) -> None:
    path = written(tmp_path / "x.om", lambda z: z.writestr(aligned("good"), b"data"))
    assert bytes(read_archive(path)["good"]) == b"data"


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members_are_rejected(tmp_path: Path, compression: int) -> None:
    path = written(tmp_path / "x.om", lambda z: z.writestr(aligned("a", compression), bytes(1000)))
    with pytest.raises(PackageError, match="'a' is compressed"):
        read_archive(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_members_are_rejected(tmp_path: Path) -> None:
    def write(archive: zipfile.ZipFile) -> None:
        for data in (b"one", b"two"):
            archive.writestr(aligned("a"), data)

    with pytest.raises(PackageError, match=r"two members|not aligned"):
        read_archive(written(tmp_path / "x.om", write))


@pytest.mark.parametrize(
    "name",
    ["../a", "/etc/passwd", "a/../b", "a//b", "./a", "a/", "a\\b", "a\nb", "a b", "é", "", "-a", "C:a"],
)
def test_invalid_member_names_are_rejected(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "x.om", lambda z: z.writestr(aligned(name), b"data"))
    with pytest.raises(PackageError, match=r"invalid name|invalid local header"):
        read_archive(path)


def test_members_off_the_alignment_are_rejected(tmp_path: Path) -> None:
    path = written(tmp_path / "x.om", lambda z: z.writestr("a", b"data"))
    with pytest.raises(PackageError, match="not aligned"):
        read_archive(path)


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"PK\x05\x06" + bytes(18), b"PK\x05\x06" + b"\xff" * 18, bytes(1000)]
)
@pytest.mark.parametrize("use_mmap", [False, True])
def test_files_that_are_no_archive(tmp_path: Path, content: bytes, use_mmap: bool) -> None:
    (tmp_path / "x.om").write_bytes(content)
    if content == b"PK\x05\x06" + bytes(18):
        assert read_archive(tmp_path / "x.om", use_mmap=use_mmap) == {}
        return
    with pytest.raises(PackageError, match="not a valid package"):
        read_archive(tmp_path / "x.om", use_mmap=use_mmap)


def test_every_truncation_is_rejected(path: Path) -> None:
    for length in reversed(range(path.stat().st_size)):
        os.truncate(path, length)
        with pytest.raises(PackageError):
            read_archive(path)


def test_a_changed_byte_anywhere_does_no_harm(path: Path) -> None:
    with open(path, "r+b", buffering=0) as file:
        for position, byte in enumerate(path.read_bytes()):
            for value in (0, 0xFF, byte ^ 1):
                check_harmless(file, position, bytes([value]), path)


@pytest.mark.parametrize("width", [2, 4, 8])
def test_a_changed_field_anywhere_does_no_harm(path: Path, width: int) -> None:
    size, top = path.stat().st_size, 1 << (8 * width)
    with open(path, "r+b", buffering=0) as file:
        for position in range(size - width):
            for value in (size, top // 2, top - 1):
                check_harmless(file, position, (value % top).to_bytes(width, "little"), path)


def check_harmless(file: FileIO, position: int, change: bytes, path: Path) -> None:
    """With ``change`` at ``position`` the file is refused, or gives members that lie within it."""
    before = os.pread(file.fileno(), len(change), position)
    os.pwrite(file.fileno(), change, position)
    try:
        members = read_archive(path)
        assert all(len(bytes(data)) <= path.stat().st_size for data in members.values())
    except PackageError:
        pass
    finally:
        os.pwrite(file.fileno(), before, position)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1 << 20])
def test_memory_of_any_size_is_aligned(size: int) -> None:
    memory = aligned_memory(size)
    assert len(memory) == size and not memory.readonly
    if size:
        assert np.frombuffer(memory, np.uint8).__array_interface__["data"][0] % ALIGNMENT == 0


def test_more_members_than_16_bits_count(tmp_path: Path) -> None:
    members = {f"m{number}": [b""] for number in range(2**16 + 3)}
    write_archive(tmp_path / "x.om", members)
    assert list(read_archive(tmp_path / "x.om", use_mmap=True)) == list(members)


def test_members_beyond_4_gib(tmp_path: Path) -> None:
    """The archive is a sparse file with members at chosen offsets; its directory has 64-bit numbers."""
    size, name = 2**32 + 64, b"large"
    pad = 64 - 30 - len(name)
    numbers = (45, 0, 0, 0, 0, 0, 0, 0, len(name), pad)
    head = b"PK\x03\x04" + struct.pack("<HHHHHIIIHH", *numbers) + name + bytes(pad)
    second = 64 + size
    directory = b""
    for title, offset, length in ((name, 0, size), (b"small", second, 3)):
        extra = struct.pack("<HHQQQ", 1, 24, length, length, offset)
        numbers = (20, 45, 0, 0, 0, 0, 0, *[2**32 - 1] * 2, len(title), len(extra), 0, 0, 0, 0, 2**32 - 1)
        directory += b"PK\x01\x02" + struct.pack("<6HIIIHHHHHII", *numbers) + title + extra
    end = second + 64 + 3
    tail = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 2, 2, len(directory), end)
    tail += b"PK\x06\x07" + struct.pack("<IQI", 0, end + len(directory), 1)
    tail += b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 2, 2, 2**32 - 1, 2**32 - 1, 0)
    with open(tmp_path / "x.om", "wb") as file:
        file.write(head)
        file.seek(second)
        file.write(head.replace(name, b"small") + b"abc" + directory + tail)
    members = read_archive(tmp_path / "x.om", use_mmap=True)
    assert {title: len(data) for title, data in members.items()} == {"large": size, "small": 3}
    assert bytes(members["small"]) == b"abc"
    with zipfile.ZipFile(tmp_path / "x.om") as archive:
        assert [info.file_size for info in archive.infolist()] == [size, 3]


class Holes:
    """An open file that leaves large pieces, which are zeros, as holes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, piece: memoryview) -> int:
        if len(piece) < 1 << 20:
            return self._file.write(piece)
        self._file.seek(len(piece), os.SEEK_CUR)
        return len(piece)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def zeros(size: int) -> memoryview:
    """Zeros that take no memory."""
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


EDGES = [2**31, 2**32]


@pytest.mark.parametrize("edge", EDGES)
def test_sizes_and_offsets_at_2_and_4_gib(tmp_path: Path, edge: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a member, the start of the next one and the size of the directory are exactly at these
    limits.
    """
    monkeypatch.setattr(writer, "checksum", lambda pieces: 0)
    path, data = tmp_path / "x.om", zeros(edge + 2)
    for size in (*range(edge - 260, edge - 255), *range(edge - 130, edge - 60), *range(edge - 3, edge + 3)):
        with open(path, "wb") as file:
            write_archive(Holes(file), {"large": [data[:size]], "small": [b"abc"]})  # type: ignore[arg-type]  # it has write alone
        members = read_archive(path, use_mmap=True)
        assert {name: len(member) for name, member in members.items()} == {"large": size, "small": 3}
        assert bytes(members["small"]) == b"abc"
        with zipfile.ZipFile(path) as archive:
            assert [info.file_size for info in archive.infolist()] == [size, 3]


@pytest.mark.parametrize("edge", EDGES)
def test_mapped_members_may_be_large(tmp_path: Path, edge: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "checksum", lambda pieces: 0)
    with open(tmp_path / "x.om", "wb") as file:
        write_archive(Holes(file), {"small": [b"abc"], "large": [zeros(edge)], "last": [b"x"]})  # type: ignore[arg-type]  # it has write alone
    members, later = open_archive(tmp_path / "x.om", later="large".__eq__)
    assert {name: bytes(member) for name, member in members.items()} == {"small": b"abc", "last": b"x"}
    assert later["large"].size == edge


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 2**31 + 1, 3 << 30, 2**32 - 1, 2**32, 2**32 + 1])
def test_the_standard_library_writes_64_bit_records_from_2_gib_on(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions wrote them too; numbers between 2 and 4 GiB are also in the 32-bit record."""
    monkeypatch.setattr(zipfile, "crc32", lambda data, value=0: 0)
    with open(tmp_path / "x.om", "wb") as file, zipfile.ZipFile(Holes(file), "w") as archive:  # type: ignore[type-var]  # it has no read
        for name, data in (("large", zeros(size)), ("small", memoryview(b"abc"))):
            info = zipfile.ZipInfo(name)
            padding = -(file.tell() + 30 + len(name) + 4 + 20) % ALIGNMENT
            info.extra = b"WG" + padding.to_bytes(2, "little") + bytes(padding)
            with archive.open(info, "w", force_zip64=True) as member:
                member.write(data)
    members = read_archive(tmp_path / "x.om", use_mmap=True)
    assert {name: len(member) for name, member in members.items()} == {"large": size, "small": 3}


class Slowly:
    """An open file that takes at most seven bytes at a time, and can go nowhere else."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, piece: memoryview) -> int:
        self.content += bytes(piece[:7])
        return min(len(piece), 7)


def test_a_pipe_gets_the_same_bytes(path: Path) -> None:
    pipe = Slowly()
    write_archive(pipe, {name: [data] for name, data in MEMBERS.items()})  # type: ignore[arg-type]  # a pipe, without seek
    assert pipe.content == path.read_bytes()
