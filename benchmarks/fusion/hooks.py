"""Compares the cost of an expression as the epilogue of a contraction with its cost in a loop of its own.

    python -m benchmarks.fusion.hooks [--isa v3 v4] [--seconds 0.3] [--kernels]

A line shows nanoseconds per vector in the hook, called on a tile in L1 as library kernels do, and in a
separate loop whose operands are in L1 as well. With ``--kernels``, convolutions and matrix multiplications
with their activation are compiled instead: fused, and with the epilogue in a separate kernel. Times are CPU
time of the thread, in rounds of the order ABBA; the ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper, parser

import graphwright as gw
from benchmarks.fusion.feeds import random_feeds
from benchmarks.kernels.calls import room
from benchmarks.limits import thread_seconds
from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.fusion.fuse import Fuse
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.op import Trait
from graphwright.ir.types import F32, tensor
from graphwright.loop_nests import hook_kernel, region_kernel, schedule_of
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.unary import Sigmoid, Tanh
from graphwright.ops.nn.activations import Gelu
from graphwright.passes.manager import PassManager
from graphwright.records import replace
from graphwright.runtime.devices.this_cpu import usable_isas
from graphwright.targets.cpu.emit import BLOCK, emit_file
from graphwright.targets.cpu.isa import ISAS, Isa, vector_header
from graphwright.targets.cpu.target import TARGETS
from graphwright.targets.cpu.toolchain import compile_shared, find_toolchain

Array = np.ndarray[Any, Any]
Run = Callable[[], object]
Model = tuple[str, dict[str, tuple[int, ...]]]
"""A graph as text, and the shapes of its weights."""
CALLS_SECONDS: Final = 2e-4
"""Of one timed batch of calls, at least."""

EXPRESSIONS: Final[dict[str, Callable[[Builder, Value, Value], Value]]] = {
    "silu": lambda b, x, r: b(Mul(), x, b(Sigmoid(), x)),
    "gelu": lambda b, x, r: b(Gelu(), x),
    "tanh": lambda b, x, r: b(Tanh(), x),
    "x*sigmoid(r)": lambda b, x, r: b(Mul(), x, b(Sigmoid(), r)),
}


class Tiles(NamedTuple):
    """Tiles of ``rows`` by ``cols`` vectors, rows ``ld`` vectors apart; the result is ``high`` by ``wide`` of
    them.
    """

    name: str
    rows: int
    cols: int
    ld: int
    high: int
    wide: int


TILES: Final = (
    Tiles("conv 14x1, in L1", 14, 1, 1, 9, 1),
    Tiles("conv 56x1, in L1", 56, 1, 1, 2, 1),
    Tiles("conv 56x1, in L2", 56, 1, 1, 35, 1),
    Tiles("conv 112x1, in L2", 112, 1, 1, 18, 1),
    Tiles("gemm 9x3, in L1", 9, 3, 3, 1, 5),
    Tiles("gemm 36x3, in L1", 36, 3, 3, 1, 1),
    Tiles("gemm 128x3, in L2", 128, 3, 3, 1, 16),
    Tiles("row 1x56, in L2", 1, 56, 56, 35, 1),
)
"""Of one row of pixels on 14x14 and 56x56, of depthwise convolutions, of products, and of what is computed in
planes.
"""

_DRIVER: Final = """
/* The hook on all tiles of a result, as a kernel calls it. */
GW_EXPORT void tiles_run(gw_hook hook, void *const *buf, const int64_t *arg, float *tile, int64_t ld,
                         int64_t rows, int64_t cols, int64_t high, int64_t wide, int64_t times) {
    for (; times > 0; times--)
        for (int64_t i = 0; i < high; i++)
            for (int64_t j = 0; j < wide; j++)
                hook(buf, arg, tile, ld, 0, i * rows, rows, j * cols, cols);
}

typedef int32_t (*kernel)(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch);
GW_EXPORT void loop_run(kernel run, void *const *buf, const int64_t *arg, int64_t units, int64_t times) {
    for (; times > 0; times--)
        run(buf, arg, 0, units, 0);
}
"""


def paired(first: Run, second: Run, seconds: float) -> tuple[float, float, float]:
    """Thread seconds of a call of each (the median), and the median of the ratios first / second."""
    begin, times = time.monotonic(), list[tuple[float, float]]()
    first(), second()
    while len(times) < 5 or time.monotonic() - begin < seconds:
        a, b, c, d = (thread_seconds(run) for run in (first, second, second, first))
        times.append((a + d, b + c))
    ratio = statistics.median(a / b for a, b in times)
    return statistics.median(a for a, _ in times) / 2, statistics.median(b for _, b in times) / 2, ratio


def _fused(result: Callable[[Builder], Value], module: Module, b: Builder, isa: Isa) -> Node:
    """The kernel of ``result``, which stays whole even if two kernels are predicted to be faster."""
    module.main.set_outputs([result(b)])
    passes = (*graph_passes(), *kernel_passes(TARGETS[isa.name]))
    PassManager([replace(p, splits=False) if isinstance(p, Fuse) else p for p in passes]).run(module)
    return next(node for node in module.main if isinstance(node.op, Fused))


def _graph(*shapes: tuple[int, ...]) -> tuple[Module, Builder, list[Value]]:
    module = Module()
    b, values = new_main_graph(module, [(f"x{k}", tensor(F32, *shape)) for k, shape in enumerate(shapes)])
    return module, b, list(values)


def hook_of(name: str, shape: tuple[int, int], isa: Isa) -> tuple[Kernel, Sequence[int]]:
    """The epilogue of a product of ``shape``, and its sizes."""
    module, b, (x, w, r) = _graph((shape[0], 3), (3, shape[1]), shape)
    node = _fused(lambda b: EXPRESSIONS[name](b, b(MatMul(), x, w), r), module, b, isa)
    region = region_of(node)
    anchor = next(n.output for n in region if Trait.CONTRACTION in n.op.traits)
    limits = TARGETS[isa.name].limits
    made = hook_kernel(region, schedule_of(region, limits), [anchor], (0, 1), module.constants, "hook")
    return made.kernel, [int(str(size)) for size in made.sizes]


def loop_of(name: str, count: int, isa: Isa) -> tuple[Kernel, Sequence[int]]:
    """The expression of ``count`` numbers."""
    module, b, (x, r) = _graph((count,), (count,))
    node = _fused(lambda b: EXPRESSIONS[name](b, x, r), module, b, isa)
    region = region_of(node)
    schedule = schedule_of(region, TARGETS[isa.name].limits)
    made = region_kernel(region, schedule, module.constants, "loop")
    return made.kernel, [int(str(size)) for size in made.sizes]


@cache
def _opened(text: str, isa: Isa) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.so"
        path.write_bytes(compile_shared(text, isa, find_toolchain()))
        return ctypes.CDLL(str(path))


def _arguments(operands: Sequence[Array], sizes: Sequence[int]) -> tuple[Any, Any]:
    pointers = [x.ctypes.data for x in operands]
    return (ctypes.c_void_p * len(pointers))(*pointers), (ctypes.c_int64 * max(1, len(sizes)))(*sizes)


def _batch(call: Callable[[int], None]) -> tuple[Run, int]:
    """Repeated calls that take about ``CALLS_SECONDS``, and their number."""
    times = 1
    while thread_seconds(partial(call, times)) < CALLS_SECONDS:
        times *= 2
    return partial(call, times), times


def tile_line(name: str, tiles: Tiles, isa: Isa, seconds: float) -> tuple[float, float, float]:
    """Returns the nanoseconds per vector in the hook and in the loop, and the ratio."""
    rows, cols = tiles.rows * tiles.high, tiles.cols * tiles.wide * isa.lanes
    driver = _opened(f"{vector_header()}{_DRIVER}", isa)
    (hook, hook_sizes), (loop, loop_sizes) = hook_of(name, (rows, cols), isa), loop_of(name, rows * cols, isa)
    code = [_opened(emit_file([(kernel, "")], isa), isa) for kernel in (hook, loop)]
    tile = room(tiles.rows * tiles.ld * isa.lanes, 896)
    kept: list[Any] = [tile]

    def operands(kernel: Kernel, first: int) -> list[Array]:
        made = [room(rows * cols, 256 * (k + 1)) for k in range(len(kernel.parameters) - first)]
        kept.extend(made)
        return made

    hook_args = _arguments(operands(hook, 1), hook_sizes)
    loop_args = _arguments(operands(loop, 0), loop_sizes)
    numbers = (tiles.ld * isa.lanes, tiles.rows, tiles.cols * isa.lanes, tiles.high, tiles.wide)
    ints = [ctypes.c_int64(n) for n in numbers]
    units = ctypes.c_int64(-(-rows * cols // BLOCK))
    fused, fused_times = _batch(
        lambda times: driver.tiles_run(
            code[0].hook, *hook_args, ctypes.c_void_p(tile.ctypes.data), *ints, ctypes.c_int64(times)
        )
    )
    apart, apart_times = _batch(
        lambda times: driver.loop_run(code[1].loop, *loop_args, units, ctypes.c_int64(times))
    )
    vectors = rows * cols / isa.lanes
    a, b, ratio = paired(fused, apart, seconds)
    scale = apart_times / fused_times
    return a / fused_times / vectors * 1e9, b / apart_times / vectors * 1e9, ratio * scale


def _conv(channels: int, size: int, kernel: int, group: int, tail: str) -> Model:
    image, pad = f"float[1,{channels},{size},{size}]", ",".join(4 * [str(kernel // 2)])
    inputs = f"{image} x, {image} r" if "(r)" in tail else f"{image} x"
    conv = f"Conv<kernel_shape=[{kernel},{kernel}], pads=[{pad}], group={group}>(x, w, b)"
    weights = {"w": (channels, channels // group, kernel, kernel), "b": (channels,)}
    return f"g ({inputs}) => ({image} y) {{ c = {conv}\n{tail} }}", weights


_SILU: Final = "s = Sigmoid(c) y = Mul(c, s)"
KERNELS: Final[dict[str, Model]] = {
    "conv1x1 64@56 + silu": _conv(64, 56, 1, 1, _SILU),
    "dw3x3 96@56 + silu": _conv(96, 56, 3, 96, _SILU),
    "winograd 64@56 + silu": _conv(64, 56, 3, 1, _SILU),
    "conv1x1 64@56 + x*sigmoid(r)": _conv(64, 56, 1, 1, "s = Sigmoid(r) y = Mul(c, s)"),
    "gemm 128x384x1536 + gelu": (
        "g (float[128,384] x) => (float[128,1536] y) { c = Gemm(x, w, b) y = Gelu(c) }",
        {"w": (384, 1536), "b": (1536,)},
    ),
}


def model_of(name: str) -> onnx.ModelProto:
    """A model with one contraction and the nodes after it."""
    text, weights = KERNELS[name]
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    random = np.random.default_rng(0)
    for weight, shape in weights.items():
        array = random.standard_normal(shape, np.float32) / math.prod(shape[1:]) ** 0.5
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), weight))
    return model


def both(source: Any, isa: Isa) -> tuple[gw.Model, gw.Model]:
    """Compiles the model as it is, and with all epilogues in kernels of their own."""
    fused = gw.CompileOptions(threads=1, isa=isa.name)
    apart = gw.CompileOptions(threads=1, isa=isa.name, fusion_rules="-epilogue")
    return gw.compile(source, options=fused), gw.compile(source, options=apart)


def compared(source: Any, feeds: dict[str, Array], isa: Isa, seconds: float) -> tuple[float, float, float]:
    """Returns the milliseconds fused and apart, and the ratio."""
    fused, apart = both(source, isa)
    a, b, ratio = paired(lambda: fused.run(feeds), lambda: apart.run(feeds), seconds)
    return a * 1e3, b * 1e3, ratio


def main() -> None:
    """Runs the command."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--isa", nargs="+", choices=list(ISAS), default=usable_isas()[::-1])
    command.add_argument("--seconds", type=float, default=0.3, help="of each comparison")
    command.add_argument("--kernels", action="store_true", help="whole kernels, fused and apart")
    command.add_argument("--only", default="", help="names that hold this")
    given = command.parse_args()
    for isa in map(ISAS.__getitem__, given.isa):
        if given.kernels:
            for name in (name for name in KERNELS if given.only in name):
                model = model_of(name)
                a, b, ratio = compared(model, random_feeds(model), isa, given.seconds)
                print(f"{isa.name} {name:30} fused {a:7.3f} ms  apart {b:7.3f} ms  {ratio:5.2f}", flush=True)
            continue
        for name in EXPRESSIONS:
            for tiles in (tiles for tiles in TILES if given.only in f"{name} {tiles.name}"):
                a, b, ratio = tile_line(name, tiles, isa, given.seconds)
                print(
                    f"{isa.name} {name:13} {tiles.name:17} hook {a:5.2f} ns  loop {b:5.2f} ns  {ratio:5.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
