"""All kernels of the library compile with zig's clang too, without a warning, for each instruction set."""

from __future__ import annotations

import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from graphwright.kernels.library.write import include_flags, source_modules, write_module
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.harness import WARNINGS, zig

PLAIN = ("-O0", "-fno-sanitize=all", "-g0", "-c")
"""Without optimization zig adds a sanitizer and debug information, which take most of the time."""


@pytest.mark.parametrize("isa", ISAS.values(), ids=lambda isa: isa.name)
@pytest.mark.parametrize("name", source_modules(), ids=lambda name: name.rpartition(".")[2])
def test_clang_compiles_it_without_a_warning(name: str, isa: Isa, tmp_path: Path) -> None:
    sources = write_module(import_module(name), isa, tmp_path)
    flags = (*isa.zig_flags, *WARNINGS, *include_flags(tmp_path), *PLAIN)
    done = subprocess.run([*zig(), *flags, *map(str, sources)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
