"""The option debug: symbols and lines in kernels, whose bytes depend on no folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphwright as gw


def compiled(cache: Path, debug: bool) -> gw.Model:
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, ("N", 64))
    b.output("y", b.mul(x, b.sigmoid(x)))
    return b.compile(options=gw.CompileOptions(debug=debug, cache_dir=cache, key_dir=cache))


def kernels(model: gw.Model) -> bytes:
    (program,) = model.package.programs()
    (target,) = program.targets.values()
    return b"".join(target.objects.values())


@pytest.mark.parametrize("debug", [False, True])
def test_symbols_and_lines_are_kept_on_request(tmp_path: Path, debug: bool) -> None:
    model = compiled(tmp_path, debug)
    code = kernels(model)
    assert (b".debug_line" in code, b"generated.c" in code) == (debug, debug)
    assert model.package.options["debug"] == str(debug).lower()


def test_bytes_do_not_depend_on_folders(tmp_path: Path) -> None:
    files = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        model = compiled(tmp_path / name, debug=True)
        assert str(tmp_path).encode() not in kernels(model)
        files.append(kernels(model))
    assert files[0] == files[1]


def test_the_source_of_the_lines_is_in_the_package(tmp_path: Path) -> None:
    (program,) = compiled(tmp_path, debug=True).package.programs()
    (target,) = program.targets.values()
    assert target.sources["generated.c"].startswith('#line 2 "generated.c"\n')
