"""What the driver of bands says of itself: parts within its arguments, or a refusal."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from graphwright.kernels.bands import bands
from graphwright.kernels.conv import blocked_depthwise, direct
from graphwright.runtime.devices.kernel_library import kernel_library
from graphwright.targets.cpu.c.extent import ARGS, FIRST
from graphwright.targets.cpu.isa import Isa
from tests.fuzz.packages import ABSURD
from tests.kernels.library.cases import each_isa

_EXTENT = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_double)
)
OPERANDS, PART = 6, 6


def expand_and_filter(isa: Isa) -> list[bands.Stage]:
    """1x1 from 16 to 32 channels, then 3x3 in each of them, of 20 x 24 pixels."""
    block = 20 * 24 * isa.lanes
    row = 24 * isa.lanes
    expand = direct.DirectArgs(
        1, 1, 16, 32, 20, 24, 20, 24, 1, 1, 1, 1, 0, 0, 1, 1, 16 // isa.lanes * block, block, row, isa.lanes,
        0, 0, 0, 32 // isa.lanes * block, block, row, isa.lanes, isa.lanes, 1, 1, 0, 0, 0,
    )  # fmt: skip
    each = blocked_depthwise.BlockedDepthwiseArgs(
        1, 32, 1, 1, 20, 24, 20, 24, 3, 3, 1, 1, 1, 1, 1, 1, 32 // isa.lanes * block, block, row,
        0, 0, 0, 32 // isa.lanes * block, block, row, 0, 0, 0,
    )  # fmt: skip
    return [bands.Stage(0, tuple(expand), OPERANDS), bands.Stage(1, tuple(each), OPERANDS)]


def said(isa: Isa, args: Any, operands: int = 2 * OPERANDS) -> list[float] | None:
    """The output of the driver; None if it fails."""
    function = _EXTENT(kernel_library(isa.name).symbol("gw_bands_extent"))
    arg = (ctypes.c_int64 * len(args))(*map(int, args))
    out = (ctypes.c_double * (FIRST + 30))(0.0)
    return list(out) if function(arg, len(args), operands, out) == 0 else None


@each_isa
def test_each_stage_is_a_part(isa: Isa) -> None:
    stages = expand_and_filter(isa)
    args = bands.arguments(isa, stages, 4)
    found = said(isa, args)
    assert found is not None
    rings = 32 // isa.lanes * (6 * 24 + 5) * isa.vector_bytes
    assert (
        found[:2]
        == [5, rings + args[4]]
        == [bands.grid(stages, 4), bands.ring_bytes(isa, stages, 4) + args[4]]
    )
    assert found[ARGS] == -2
    first, second = (found[FIRST + PART * k + 1 : FIRST + PART * (k + 1)] for k in range(2))
    count = len(direct.ABI.args)
    assert first == [5 + 6, count, 0, OPERANDS, 1 << 4]
    assert second == [5 + 6 + count + 6, len(blocked_depthwise.ABI.args), OPERANDS, OPERANDS, 1 << 0]


@each_isa
@pytest.mark.parametrize(
    "change", ["fewer_arguments", "fewer_operands", "another_height", "an_unknown_kernel"]
)
def test_arguments_that_describe_no_chain_are_rejected(isa: Isa, change: str) -> None:
    stages = expand_and_filter(isa)
    args = list(bands.arguments(isa, stages, 4))
    second = 5 + 6 + len(direct.ABI.args)
    if change == "fewer_arguments":
        args = args[:-1]
    elif change == "another_height":
        args[second + 6 + blocked_depthwise.ABI.args.index("h")] = 19
    elif change == "an_unknown_kernel":
        args[second] = len(bands.KINDS)
    assert said(isa, args, 2 * OPERANDS - (change == "fewer_operands")) is None


@each_isa
def test_hostile_arguments_are_rejected_or_bounded(isa: Isa) -> None:
    generator = np.random.default_rng(0)
    args, taken = np.array(bands.arguments(isa, expand_and_filter(isa), 4)), 0
    for _ in range(3000):
        hostile = generator.random(len(args)) < generator.choice([0.01, 0.03, 0.3])
        found = said(isa, np.where(hostile, generator.choice(np.array(ABSURD), len(args)), args))
        if found is None:
            continue
        taken += 1
        assert found[0] >= 0 and found[1] >= 0
        for part in (found[FIRST + PART * k + 1 : FIRST + PART * (k + 1)] for k in range(int(-found[ARGS]))):
            assert part[0] >= 0 and part[0] + part[1] <= len(args)
            assert part[2] >= 0 and part[2] + part[3] <= 2 * OPERANDS
    assert taken > 100
