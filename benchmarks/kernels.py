"""Compares the GFLOP/s of the library's convolution and depthwise kernels with the FMA limit of this core.

Run: ``PYTHONPATH=src python benchmarks/kernels.py [v3|v4] [conv|depthwise]...`` (needs gcc). The
shapes are those of resnet50 and mobilenet_v2. The limit is measured again for
each kernel, alternating with it and in CPU time, to reduce the influence of other processes.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calls import library
from graphwright.kernels.conv import conv, depthwise
from graphwright.kernels.conv.pack import conv_panels
from graphwright.records import replace
from graphwright.runtime.devices.target import usable_isas
from graphwright.targets.cpu.isa import ISAS, Isa, prelude
from graphwright.targets.cpu.toolchain import compile_shared, find_toolchain

Case = tuple[str, float, Callable[[], None]]
"""Label, floating-point operations, one run."""

_LIMIT = """
GW_EXPORT int32_t limit(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    vf sums[12], x = vf_set1(1.0001f), y = vf_set1(0.9999f);
    float *out = scratch;
    (void)buf, (void)arg;
    for (int i = 0; i < 12; i++)
        sums[i] = x;
    for (; begin < end; begin++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sums[i] = vf_fma(sums[i], y, x);
    for (int i = 0; i < 12; i++)
        vf_store(out + i * VL, sums[i]);
    return 0;
}
"""


@cache
def _library(name: str, isa: Isa) -> ctypes.CDLL:
    modules = {"conv": conv, "depthwise": depthwise}
    if name in modules:
        return library(modules[name], isa)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "limit.so"
        target.write_bytes(compile_shared(prelude() + _LIMIT, isa, find_toolchain()))
        return ctypes.CDLL(str(target))


def _launch(kernel: Any, operands: list[Any], args: Any, grid: Any, scratch: Any) -> Callable[[], None]:
    buf = (ctypes.c_void_p * (len(operands) + 1))(*[0 if x is None else x.ctypes.data for x in operands], 0)
    arg = (ctypes.c_int64 * max(1, len(args)))(*map(int, args))
    room = _array(int(scratch) // 4)
    end, at = ctypes.c_int64(int(grid)), ctypes.c_void_p(room.ctypes.data)

    def run() -> None:
        _ = (operands, room)
        if kernel(buf, arg, ctypes.c_int64(0), end, at):
            raise RuntimeError("the kernel failed")

    return run


def _array(*shape: int) -> Any:
    """Random numbers, aligned to a cache line."""
    size = int(np.prod(shape))
    raw = np.empty(size * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + size * 4].view(np.float32).reshape(shape)
    array[...] = np.random.default_rng(0).standard_normal(shape, np.float32)
    return array


def _limit(isa: Isa) -> Case:
    steps = 200_000
    run = _launch(_library("limit", isa).limit, [], (), steps, 4096)
    return "limit", steps * 12 * isa.lanes * 2.0, run


def conv_cases(isa: Isa) -> Iterator[Case]:
    """(channels in, channels out, image, kernel, stride) of resnet50, then of mobilenet_v2."""
    kernel = _library("conv", isa)[conv.SYMBOL]
    resnet = [
        (3, 64, 224, 7, 2),
        (64, 64, 56, 1, 1),
        (64, 64, 56, 3, 1),
        (64, 256, 56, 1, 1),
        (256, 64, 56, 1, 1),
    ]
    resnet += [(128, 128, 56, 3, 2), (128, 128, 28, 3, 1), (512, 128, 28, 1, 1), (256, 256, 14, 3, 1)]
    resnet += [(256, 1024, 14, 1, 1), (1024, 2048, 14, 1, 2), (512, 512, 7, 3, 1), (2048, 512, 7, 1, 1)]
    mobilenet = [
        (3, 32, 224, 3, 2),
        (16, 96, 112, 1, 1),
        (96, 24, 56, 1, 1),
        (32, 192, 28, 1, 1),
        (96, 576, 14, 1, 1),
    ]
    for cin, cout, size, k, stride in [*resnet, *mobilenet, (320, 1280, 7, 1, 1)]:
        pad, out = k // 2, (size - 1) // stride + 1
        args = conv.ConvArgs(
            1, 1, cin, cout, 1, size, size, 1, out, out, 1, k, k, 1, stride, stride, 0, pad, pad, 1, 1, 1,
            cin * size**2, size**2, 0, size, 1, cout * out**2, out**2, 0, out, 1, 1, 0,
        )  # fmt: skip
        args = replace(args, unit_tiles=conv.unit_tiles(isa, args))
        weights = _packed(conv_panels(_array(cout, cin, k, k), 1, conv.panel_rows(isa)))
        operands = [_array(cin, size, size), weights, _array(cout), _array(cout, out, out)]
        run = _launch(kernel, operands, args, conv.grid(isa, args), conv.scratch_bytes(isa, args))
        yield f"{cin}->{cout} {size}x{size} {k}x{k}/{stride}", 2.0 * cin * cout * k * k * out * out, run


def depthwise_cases(isa: Isa) -> Iterator[Case]:
    """(channels, image, kernel, stride) of mobilenet_v2; 5x5 windows of its successors."""
    kernel = _library("depthwise", isa)[depthwise.SYMBOL]
    mobilenet = [
        (32, 112, 3, 1),
        (96, 112, 3, 2),
        (144, 56, 3, 1),
        (144, 56, 3, 2),
        (192, 28, 3, 1),
        (384, 14, 3, 1),
    ]
    for channels, size, k, stride in [*mobilenet, (960, 7, 3, 1), (120, 28, 5, 1), (240, 28, 5, 2)]:
        pad, out = k // 2, (size - 1) // stride + 1
        args = depthwise.DepthwiseArgs(
            1, channels, 1, 1, 1, size, size, 1, out, out, 1, k, k, 1, stride, stride, 0, pad, pad, 1, 1, 1,
            channels * size**2, size**2, 0, size, 1, channels * out**2, out**2, 0, out, 1, 1,
        )  # fmt: skip
        operands = [
            _array(channels, size, size),
            _array(channels, k, k),
            _array(channels),
            _array(channels, out, out),
        ]
        run = _launch(kernel, operands, args, depthwise.grid(args), depthwise.scratch_bytes(isa, args))
        yield f"{channels} {size}x{size} {k}x{k}/{stride}", 2.0 * channels * k * k * out * out, run


def _packed(panels: Any) -> Any:
    copy = _array(*panels.shape)
    copy[...] = panels
    return copy


CASES: dict[str, Callable[[Isa], Iterator[Case]]] = {
    "conv": conv_cases,
    "depthwise": depthwise_cases,
}


def _seconds(run: Callable[[], None]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main(arguments: list[str]) -> None:
    """Print a line per case: GFLOP/s, the limit measured in turns with it, the median of their ratios."""
    chosen = [isa for name, isa in ISAS.items() if name in arguments] or [ISAS[usable_isas()[-1]]]
    families = [name for name in CASES if name in arguments] or list(CASES)
    for isa in chosen:
        _, limit_flops, limit = _limit(isa)
        for family in families:
            for label, flops, run in CASES[family](isa):
                run()
                repeats = max(1, int(2e-3 / _seconds(run)))
                speeds, limits = [], []
                for _ in range(15):
                    limits.append(limit_flops / _seconds(limit) / 1e9)
                    start = time.process_time()
                    for _ in range(repeats):
                        run()
                    speeds.append(flops * repeats / (time.process_time() - start) / 1e9)
                ratio = statistics.median(s / p for s, p in zip(speeds, limits, strict=True))
                speed, peak = statistics.median(speeds), statistics.median(limits)
                rates = f"{speed:7.1f} (best {max(speeds):6.1f}) of {peak:6.1f} GFLOP/s {ratio:5.2f}"
                print(f"{isa.name} {family:9} {label:30} {rates}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
