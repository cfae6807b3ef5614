"""Loads at small steps: the elements that NumPy's slices give, and nothing read behind the last of them."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest

from graphwright.ir.types import F32, F64, I16, I64, U8, DType
from graphwright.targets.cpu.c.dtypes import C_TYPES
from graphwright.targets.cpu.c.helpers.strided_loads import SMALL_STEPS
from graphwright.targets.cpu.c.prelude import Prelude
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.toolchain import compile_shared
from tests.kernels.library.cases import guard
from tests.kernels.library.harness import RUNNABLE
from tests.targets.cpu.generated import load, toolchain

DTYPES = (U8, I16, F32, F64, I64)


def _lanes(isa: Isa, dtype: DType) -> list[int]:
    """As loops over elements of 4 and of 8 bytes have them."""
    return [isa.vector_bytes // size for size in (4, 8) if size >= dtype.bytes]


def _name(dtype: DType, step: str, lanes: int) -> str:
    return f"run_{dtype}_{step}_{lanes}"


@cache
def library(isa: Isa) -> ctypes.CDLL:
    prelude, runs = Prelude(isa), []
    for dtype in DTYPES:
        for step in SMALL_STEPS:
            for lanes in _lanes(isa, dtype):
                vector, element = prelude.vector(dtype, lanes), C_TYPES[dtype.name]
                function = prelude.function(f"load_step_{step}", dtype, lanes)
                runs.append(
                    f"GW_EXPORT void {_name(dtype, step, lanes)}(const {element} *p, {element} *y) {{\n"
                    f"    *({vector}_any *)y = {function}(p);\n}}\n"
                )
    return load(compile_shared(prelude.text() + "".join(runs), isa, toolchain()))


@pytest.mark.parametrize("step", SMALL_STEPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
def test_lanes_are_those_of_a_slice(isa: Isa, dtype: DType, step: str) -> None:
    for lanes in _lanes(isa, dtype):
        x = np.arange(1, int(step) * (lanes - 1) + 2).astype(dtype.numpy)
        source, y = guard(x, at_end=True), np.zeros(lanes, dtype.numpy)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (source, y)]
        library(isa)[_name(dtype, step, lanes)](*pointers)
        np.testing.assert_array_equal(y, x[:: int(step)])
