"""The header and the flags: compilers accept them, and the library exports and requires only the expected
symbols.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphwright.c_api import INCLUDE_FOLDER, LIBRARY_FOLDER
from graphwright.c_api.__main__ import main

HEADER = (INCLUDE_FOLDER / "graphwright.h").read_text()
LIBRARY = LIBRARY_FOLDER / "libgraphwright.so"


@pytest.mark.parametrize("compiler", [["gcc", "-std=c99"], ["gcc", "-std=c11"], ["g++", "-std=c++11"]])
def test_the_header_compiles_alone_without_warnings(compiler: list[str], tmp_path: Path) -> None:
    source = tmp_path / f"alone.{'cpp' if compiler[0] == 'g++' else 'c'}"
    source.write_text("#include <graphwright.h>\n")
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{INCLUDE_FOLDER}"]
    subprocess.run([*compiler, *flags, str(source)], check=True)


def test_the_library_exports_what_it_declares() -> None:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(LIBRARY)], check=True, capture_output=True, text=True
    )
    exported = {line.split()[-1] for line in done.stdout.splitlines()}
    declared = set(re.findall(r"^GW_API [^;(]*?\**(gw_\w+)\(", HEADER, re.MULTILINE))
    assert len(declared) > 40
    assert exported == declared


def test_the_library_needs_no_symbols_of_python() -> None:
    done = subprocess.run(
        ["nm", "-D", "--undefined-only", str(LIBRARY)], check=True, capture_output=True, text=True
    )
    assert "Py" not in done.stdout
    needed = subprocess.run(
        ["readelf", "-d", str(LIBRARY)], check=True, capture_output=True, text=True
    ).stdout
    libraries = set(re.findall(r"NEEDED.*\[(.*)\]", needed))
    assert libraries <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}


def test_the_command_prints_flags_and_folders(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--cflags", "--libs"])
    assert capsys.readouterr().out.split() == [
        f"-I{INCLUDE_FOLDER}", f"-L{LIBRARY_FOLDER}", f"-Wl,-rpath,{LIBRARY_FOLDER}", "-lgraphwright",
    ]  # fmt: skip
    main(["--include-dir"])
    assert (Path(capsys.readouterr().out.strip()) / "graphwright.h").is_file()
    main(["--library-dir"])
    assert (Path(capsys.readouterr().out.strip()) / "libgraphwright.so").is_file()
    with pytest.raises(SystemExit):
        main([])
    assert "say what to print" in capsys.readouterr().err


def test_flags_with_spaces_are_quoted_for_a_shell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphwright.c_api.INCLUDE_FOLDER", Path("/a b/include"))
    main(["--cflags"])
    assert capsys.readouterr().out == "'-I/a b/include'\n"


def test_the_command_needs_no_numpy() -> None:
    use = "import sys; from graphwright.c_api.__main__ import main; main(['--libs'])"
    subprocess.run(
        [sys.executable, "-c", f"{use}; assert 'numpy' not in sys.modules"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
