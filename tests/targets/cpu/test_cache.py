"""The cache of compiled kernels: hits, bounds, privacy, and why it missed."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphwright.config import Options
from graphwright.targets.cpu.cache import KernelCache, Key, key_of
from graphwright.targets.cpu.isa import V3, V4
from graphwright.targets.cpu.toolchain import Toolchain

COMPILER = Toolchain(("/usr/bin/cc",), "cc 1.0")
KEY = Key("abc", "v3", "-O2", "cc 1.0", "{}")


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    return KernelCache(Options(cache_dir=tmp_path / "cache"))


def test_another_process_in_another_folder_finds_stored_kernels(cache: KernelCache, tmp_path: Path) -> None:
    assert cache.load(KEY) is None
    cache.store(KEY, b"code")
    assert cache.load(KEY) == b"code"
    assert cache.stats().hits == 1 and cache.stats().misses == 1 and cache.stats().entries == 1
    (tmp_path / "cache").rename(tmp_path / "moved")
    assert KernelCache(Options(cache_dir=tmp_path / "moved")).load(KEY) == b"code"


def test_compile_runs_the_compiler_for_misses_alone(
    cache: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def compile_all(sources: list[str], isa: object, toolchain: object, **given: Any) -> list[bytes]:
        ran.extend(sources)
        return [s.upper().encode() for s in sources]

    monkeypatch.setattr("graphwright.targets.cpu.cache.compile_all", compile_all)
    assert cache.compile(["a", "b", "a"], V3, COMPILER) == [b"A", b"B", b"A"]
    assert cache.compile(["b", "c"], V3, COMPILER) == [b"B", b"C"]
    assert ran == ["a", "b", "c"]


def test_the_cache_key_contains_all_that_affects_the_code() -> None:
    options = Options()
    base = key_of("int x;", V3, COMPILER, options)
    others = [
        key_of("int y;", V3, COMPILER, options),
        key_of("int x;", V4, COMPILER, options),
        key_of("int x;", V3, replace(COMPILER, identity="cc 1.1"), options),
        key_of("int x;", V3, COMPILER, replace(options, numerics="strict")),
    ]
    assert len({k.digest for k in (base, *others)}) == 5
    elsewhere = key_of(
        "int x;", V3, replace(COMPILER, command=("/opt/cc",)), replace(options, cache_limit=7, threads=3)
    )
    assert elsewhere.digest == base.digest


def test_a_miss_is_explained(cache: KernelCache) -> None:
    assert cache.explain_miss(KEY) == "the cache is empty"
    cache.store(KEY, b"code")
    assert cache.explain_miss(KEY).startswith("not a miss")
    assert cache.explain_miss(replace(KEY, compiler="cc 2.0")) == "compiler changed from 'cc 1.0' to 'cc 2.0'"
    assert "the source is new" in cache.explain_miss(replace(KEY, source="xyz"))
    next(cache.folder.glob("*.so")).unlink()
    assert "dropped" in cache.explain_miss(KEY)


def test_a_damaged_entry_is_a_miss(cache: KernelCache) -> None:
    cache.store(KEY, b"code")
    path = next(cache.folder.glob("*.so"))
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert cache.load(KEY) is None


def test_the_folder_is_private(cache: KernelCache) -> None:
    cache.store(KEY, b"code")
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in cache.folder.iterdir())


def test_a_folder_that_others_may_access_is_neither_read_nor_written(
    cache: KernelCache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.store(KEY, b"code")
    cache.folder.chmod(0o755)
    assert cache.load(KEY) is None
    cache.store(replace(KEY, source="another"), b"code")
    assert len(list(cache.folder.glob("*.so"))) == 1
    assert f"only this user may read and write; run chmod 700 {cache.folder}" in caplog.text
    cache.folder.chmod(0o700)
    assert cache.load(KEY) == b"code"


def test_links_are_not_followed(cache: KernelCache, tmp_path: Path) -> None:
    cache.store(KEY, b"code")
    path = next(cache.folder.glob("*.so"))
    path.rename(tmp_path / "elsewhere.so")
    path.symlink_to(tmp_path / "elsewhere.so")
    assert cache.load(KEY) is None
    linked = KernelCache(Options(cache_dir=tmp_path / "other"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kernels").symlink_to(cache.folder)
    linked.store(replace(KEY, source="another"), b"code")
    assert linked.load(KEY) is None
    assert len(list(cache.folder.glob("*.so"))) == 1


def test_the_limit_drops_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = KernelCache(Options(cache_dir=tmp_path, cache_limit=1))
    keys = [replace(KEY, source=str(i)) for i in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.store(key, bytes(300_000))
        os.utime(cache.folder / f"{key.digest}.so", (age, age))
    assert cache.load(keys[0]) is not None  # used: now the newest
    cache.store(keys[3], bytes(300_000))
    assert cache.load(keys[1]) is None
    assert cache.load(keys[0]) is not None and cache.load(keys[3]) is not None
    assert cache.stats().bytes <= 1 << 20
    assert cache.clear() == cache.stats().entries + 3


def test_small_entries_do_not_read_the_folder_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full cache has tens of thousands of entries."""
    cache, lists = KernelCache(Options(cache_dir=tmp_path, cache_limit=1)), []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: lists.append(path) or listdir(path))
    for i in range(30):
        cache.store(replace(KEY, source=str(i)), bytes(10_000))
    assert len(lists) == 1 + 30 * 10_000 // (1 << 16)


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = KernelCache(Options(cache_dir=tmp_path / "file"))
    cache.store(KEY, b"code")
    assert cache.load(KEY) is None
