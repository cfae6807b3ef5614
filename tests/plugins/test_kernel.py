"""The example's C alone: both ISAs, odd sizes, inaccessible pages around its operands."""

from __future__ import annotations

import ctypes
import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from graphwright import _native
from graphwright.kernels.library.bits import double_bits
from graphwright.runtime.devices.this_cpu import LEVELS
from graphwright.targets.cpu.isa import ISAS, Isa
from graphwright.targets.cpu.toolchain import compile_shared
from graphwright.targets.cpu.user_code import CSource
from tests.targets.cpu.generated import guarded, load, toolchain

from .support import EXAMPLES, expected

HERE = [isa for isa in ISAS.values() if LEVELS.index(isa.name) <= LEVELS.index(_native.isa())]


@cache
def library(name: str) -> ctypes.CDLL:
    source = CSource.read(EXAMPLES / "l2_normalize.c")
    return load(compile_shared(source.unit(ISAS[name], ["l2_normalize"]), ISAS[name], toolchain()))


def test_a_byte_order_mark_is_no_part_of_the_code(tmp_path: Path) -> None:
    file = tmp_path / "kernel.c"
    file.write_text("int f;", encoding="utf-8-sig")
    assert CSource.read(file).text == "int f;"


@pytest.mark.parametrize("isa", HERE, ids=lambda isa: isa.name)
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("columns", [0, 1, 7, 8, 9, 15, 16, 17, 33, 257])
def test_it_stays_in_its_operands_and_keeps_its_bits(isa: Isa, side: str, columns: int) -> None:
    rows = 5
    x = guarded(np.random.default_rng(columns).standard_normal((rows, columns), np.float32), side)
    arguments = (ctypes.c_int64 * 2)(columns, double_bits(1e-12))
    results = []
    for splits in ([0, rows], [0, 1, rows], [0, 2, 3, rows]):
        y = guarded(np.full((rows, columns), np.nan, np.float32), side)
        operands = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
        for begin, end in itertools.pairwise(splits):
            call = library(isa.name).l2_normalize
            assert call(operands, arguments, ctypes.c_int64(begin), ctypes.c_int64(end), None) == 0
        results.append(y.tobytes())
    np.testing.assert_allclose(y, expected("l2_normalize", x), rtol=1e-6)
    assert len(set(results)) == 1
