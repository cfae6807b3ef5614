"""Every kernel of the library says how far it reaches; what it says of hostile arguments ends in no fault.

That it is true is tested with each kernel: :mod:`tests.kernels.library.harness` runs all calls on operands
that have no more bytes than that, and :mod:`tests.kernels.library.refusal` plans launches with fewer.
"""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphwright.kernels.gemm import gemm
from graphwright.kernels.library.extent import GRID, Extent, ExtentInC, arguments
from graphwright.kernels.library.write import kernel_modules, write_module
from graphwright.runtime.devices.kernel_library import kernel_library
from graphwright.targets.cpu.c.extent import FIRST
from graphwright.targets.cpu.isa import V3, Isa
from tests.fuzz.packages import ABSURD
from tests.kernels.library.cases import each_isa

MODULES = kernel_modules()
_EXTENT = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_double)
)


def extents(isa: Isa) -> list[Extent]:
    return [extent for module in MODULES for extent in module.extents(isa)]


def built(isa: Isa, symbol: str) -> Any:
    return _EXTENT(kernel_library(isa.name).symbol(f"{symbol}_extent"))


@each_isa
def test_every_kernel_is_built_with_an_extent(isa: Isa, tmp_path: Path) -> None:
    for module in MODULES:
        text = write_module(module, isa, tmp_path)[-1].read_text()
        written = [extent for extent in module.extents(isa) if not isinstance(extent, ExtentInC)]
        assert text.count("_extent(const int64_t *arg") == 2 * len(written)
    symbols = [extent.symbol for extent in extents(isa)]
    assert len(set(symbols)) == len(symbols) >= 50
    assert all(built(isa, symbol) for symbol in symbols)


def test_a_kernel_without_an_extent_is_not_built(tmp_path: Path) -> None:
    lacking = SimpleNamespace(
        __name__="lacking",
        __file__=gemm.__file__,
        header=gemm.header,
        extents=lambda isa: gemm.extents(isa)[:-1],
    )
    with pytest.raises(ValueError, match="gw_gemm_f32_codes"):
        write_module(lacking, V3, tmp_path)
    assert not any(tmp_path.iterdir())


@each_isa
def test_hostile_arguments_are_rejected_or_bounded(isa: Isa) -> None:
    generator = np.random.default_rng(0)
    taken = 0
    for extent in extents(isa):
        function, operands = built(isa, extent.symbol), len(extent.operands) + 1
        for _ in range(400):
            hostile = generator.random(len(extent.args)) < generator.choice([0.03, 0.3, 1])
            args = np.where(hostile, generator.choice(np.array(ABSURD), len(hostile)), 1)
            arg = (ctypes.c_int64 * max(1, args.size))(*map(int, args))
            out = (ctypes.c_double * (FIRST + operands))(1.0)
            if function(arg, args.size, operands, out) == 0:
                taken += 1
                assert not any(map(math.isnan, out[FIRST:])), (extent.symbol, args)
    assert taken > 1000


def test_bounds_and_choices_are_of_arguments() -> None:
    for extent in extents(V3):
        assert {*(extent.bounds or {}), *(extent.choices or {})} <= set(extent.args), extent.symbol


def test_strides_and_dilations_of_windows_are_positive() -> None:
    found = 0
    for extent in extents(V3):
        if "global" in extent.symbol:  # it has no windows
            continue
        for name in extent.args:
            if name.rstrip("012").split("_")[0] in ("stride", "dilation"):
                assert (extent.bounds or {})[name][0] >= 1, (extent.symbol, name)
                found += 1
    assert found >= 60


@pytest.mark.parametrize("name", ["grid", "units"])
def test_an_argument_is_not_taken_for_the_launched_grid(name: str) -> None:
    claimed = Extent("gw_k", (name,), (), grid=getattr(arguments(name), name))
    assert f"out[0] = a_{name};" in claimed.c_text()
    assert "out[0] = grid;" in Extent("gw_k", (name,), (), grid=GRID).c_text()


def test_an_argument_with_the_name_of_the_launched_grid_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"gw_k: launched_grid is the grid of a launch"):
        Extent("gw_k", (str(GRID),), (), grid=1).c_text()
