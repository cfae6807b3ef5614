"""Finding a compiler, compiling without a shell, and what errors say."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from graphwright.config import Options
from graphwright.errors import ToolchainError
from graphwright.ir.loops.text import parse_kernel
from graphwright.targets.cpu import toolchain as module
from graphwright.targets.cpu.emit import emit_file
from graphwright.targets.cpu.toolchain import compile_all, compile_shared, find_toolchain
from tests.ir.loops.cases import CASES, arrays_of
from tests.kernels.library.harness import RUNNABLE
from tests.targets.cpu.generated import load, outputs

SOURCE = '__attribute__((visibility("default"))) int answer(void) {{ return {}; }}\n'


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder for sources that are kept for inspection; it is removed with those of other tests."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def fresh() -> None:
    module._identify.cache_clear()


@pytest.fixture
def no_compilers(fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH without cc, gcc and clang."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_ziglang_alone_builds_and_runs(no_compilers: None) -> None:
    pytest.importorskip("ziglang")
    found = find_toolchain(Options())
    assert found.zig and found.command == (sys.executable, "-m", "ziglang", "cc")
    cases = [c for c in CASES if c.name in ("softmax", "gelu", "attention", "embedding")]
    kernels = [parse_kernel(c.text) for c in cases]
    isa = RUNNABLE[-1]
    library = load(compile_shared(emit_file([(k, "zig") for k in kernels], isa), isa, found))
    for case, kernel in zip(cases, kernels, strict=True):
        arrays = arrays_of(case, kernel, case.sizes[0])
        expected = case.expected({n: a.copy() for n, a in arrays.items()}, case.sizes[0])
        got = outputs(library, kernel, arrays, case.sizes[0], list(expected))
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, rtol=2e-5, atol=2e-5)


def test_no_compiler_is_one_error(no_compilers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolchainError) as caught:
        find_toolchain(Options())
    (fault,) = caught.value.diagnostics
    for part in ("cc: not found", "gcc: not found", "clang: not found", "ziglang package: not installed"):
        assert part in fault.message
    assert "pip install graphwright[toolchain]" in fault.hint


def test_a_process_without_path_finds_the_tools_of_the_compiler(
    fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``env -i`` removes PATH too; a compiler in the default path finds its linker there."""
    monkeypatch.delenv("PATH")
    assert compile_shared(SOURCE.format(7), RUNNABLE[0], find_toolchain(Options())).startswith(b"\x7fELF")


def test_a_source_that_cannot_be_written_is_an_error_about_space() -> None:
    found, before = find_toolchain(Options()), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(ToolchainError, match=r"cannot be written: File too large(.|\n)*TMPDIR"):
            compile_shared(SOURCE.format(8), RUNNABLE[0], found)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_compiler_that_the_system_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_toolchain(Options())

    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(ToolchainError, match=r"cannot be started: Resource temporarily unavailable"):
        compile_shared(SOURCE.format(9), RUNNABLE[0], found)


@pytest.mark.parametrize("words", ["cc -O1", "'{folder}/my cc' -O1", "env cc -O1"])
def test_a_command_with_arguments(fresh: None, tmp_path: Path, words: str) -> None:
    (tmp_path / "my cc").symlink_to(shutil.which("cc") or "/usr/bin/cc")
    found = find_toolchain(Options(cc=words.format(folder=tmp_path)))
    assert found.command[-1] == "-O1" and not found.zig
    assert compile_shared(SOURCE.format(10), RUNNABLE[0], found).startswith(b"\x7fELF")


def test_a_compiler_that_another_command_starts_is_identified_as_well(fresh: None, tmp_path: Path) -> None:
    compiler, options = (
        tmp_path / "fake",
        Options(cc=f"env {tmp_path}/fake", cache_dir=str(tmp_path / "cache")),
    )
    for version in ("1", "2.0"):
        compiler.write_text(f"#!/bin/sh\necho fake {version}\n")
        compiler.chmod(0o700)
        module._identify.cache_clear()
        assert find_toolchain(options).identity == f"fake {version}"


def test_the_variable_CC_comes_first_if_it_runs(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "cc -O1")
    assert find_toolchain(Options()).command[1:] == ("-O1",)
    assert find_toolchain(Options(cc="gcc -O2")).command[1:] == ("-O2",)
    for broken in ("/nowhere/cc", "", "cc 'not closed"):
        monkeypatch.setenv("CC", broken)
        assert find_toolchain(Options()).command[1:] == ()


def test_only_the_compiler_of_the_option_is_tried(fresh: None, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="/no/such/cc: not found") as caught:
        find_toolchain(Options(cc="/no/such/cc"))
    assert "gcc:" not in caught.value.diagnostics[0].message
    fake = tmp_path / "my cc; touch pwned"
    fake.write_text("#!/bin/sh\necho fake 1.0\n")
    fake.chmod(0o700)
    assert find_toolchain(Options(cc=str(fake))).identity == "fake 1.0"


def test_a_rejected_source_is_kept_and_named() -> None:
    with pytest.raises(ToolchainError, match=r"undeclared|undefined") as caught:
        compile_shared("int broken(void) { return missing; }\n", RUNNABLE[0], find_toolchain(Options()))
    source = Path(caught.value.diagnostics[0].where)
    assert "missing" in source.read_text()
    assert stat.S_IMODE(source.parent.stat().st_mode) == 0o700


def test_only_the_source_named_in_the_error_is_kept(temporary: Path) -> None:
    sources = [f"int broken(void) {{ return missing_{n}; }}\n" for n in range(3)]
    with pytest.raises(ToolchainError, match="missing_0") as caught:
        compile_all(sources, RUNNABLE[0], find_toolchain(Options()))
    source = Path(caught.value.diagnostics[0].where)
    assert list(temporary.iterdir()) == [source.parent]


def test_a_program_that_is_no_compiler_is_named(fresh: None, tmp_path: Path) -> None:
    fake = tmp_path / "cc"
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o700)
    with pytest.raises(ToolchainError, match=r"cc reported no error but made no object: is it a C"):
        compile_shared("int x;\n", RUNNABLE[0], find_toolchain(Options(cc=str(fake))))


def test_a_compiler_that_hangs_is_stopped(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "cc"
    fake.write_text('#!/bin/sh\n[ "$1" = --version ] && echo slow && exit\nsleep 30\n')
    fake.chmod(0o700)
    found = find_toolchain(Options(cc=str(fake)))
    monkeypatch.setattr(module, "TIME_LIMIT", 0.3)
    with pytest.raises(ToolchainError, match="did not end within"):
        compile_shared("int x;\n", RUNNABLE[0], found)


def test_sources_compile_side_by_side_in_order() -> None:
    objects = compile_all(
        [SOURCE.format(i) for i in range(4)], RUNNABLE[0], find_toolchain(Options()), workers=2
    )
    assert [load(code).answer() for code in objects] == [0, 1, 2, 3]


def test_a_compiler_is_asked_once_until_its_file_changes(tmp_path: Path) -> None:
    fake, asked = tmp_path / "cc", tmp_path / "asked"
    options = Options(cc=str(fake), cache_dir=tmp_path / "cache")

    def found(version: str) -> str:
        module._identify.cache_clear()  # as a new process
        fake.write_text(f"#!/bin/sh\necho x >> {asked}\necho {version}\n")
        fake.chmod(0o700)
        os.utime(fake, ns=(0, len(version)))
        return find_toolchain(options).identity

    assert [found("fake 1"), found("fake 1"), found("fake 1")] == ["fake 1"] * 3
    assert asked.read_text() == "x\n"
    assert found("fake 20") == "fake 20"
    assert asked.read_text() == "x\nx\n"


def test_notes_that_others_may_write_are_not_read(tmp_path: Path) -> None:
    fake = tmp_path / "cc"
    fake.write_text("#!/bin/sh\necho fake 1\n")
    fake.chmod(0o700)
    options = Options(cc=str(fake), cache_dir=tmp_path / "cache")
    assert find_toolchain(options).identity == "fake 1"
    (note,) = (tmp_path / "cache" / "compilers").iterdir()
    note.write_text("another")
    note.parent.chmod(0o777)
    module._identify.cache_clear()
    assert find_toolchain(options).identity == "fake 1"
    module._identify.cache_clear()
