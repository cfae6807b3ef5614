"""Compares the library's GEMM with the limits of this core:
``python -m benchmarks.kernels.gemm [v3|v4] [WORD...]``.

Shapes are M x N x K of bert_base (sequence 128), vit_b16 (197 tokens), a decoder layer (hidden 3584, 28 heads
of 128, 4 of keys and values, MLP 18944), products in attention, and products of 1-16 rows. A line gives the
GFLOP/s, and their share of the FMA limit. For up to 16 rows it gives the GB/s at which B is read, and their
share of the speed of a loop that reads as many bytes (or of the FMA limit, if the FMAs take longer). Limits
are measured directly before and after each run of the kernel, in processor time. A share is the median of
the best quarter of such pairs, a speed is the best one. A process on the other hyperthread of the core slows
down the kernel, which issues three instructions per cycle, more than the FMA loop, which issues two; the
median of all pairs shows this effect. WORDs select the lines whose label contains one of them.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from benchmarks.kernels.calls import call, library, room, scratch_room
from benchmarks.limits import fma_gflops, read_gbps, thread_seconds
from graphwright.kernels.gemm import gemm, problem
from graphwright.kernels.library.bits import single_bits
from graphwright.runtime.devices.this_cpu import usable_isas
from graphwright.targets.cpu.isa import ISAS, Isa

_SECONDS: Final = 5e-4
"""What one measurement takes at least."""
_PATIENCE: Final = 1.0
"""Seconds of wall time for one case; three measurements are made at least."""


@dataclass(frozen=True)
class Case:
    """``batch`` products of [m, k] and [k, n]; ``form``: packed, strided, a_transposed or b_transposed."""

    label: str
    m: int
    n: int
    k: int
    batch: int = 1
    form: str = "packed"

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k


_DECODER: Final = {"q": (3584, 3584), "kv": (512, 3584), "up": (18944, 3584), "down": (3584, 18944)}


def cases() -> Iterator[Case]:
    """All cases, by model."""
    for name, (n, k) in {"768x768": (768, 768), "up": (3072, 768), "down": (768, 3072)}.items():
        yield Case(f"bert {name}", 128, n, k)
        yield Case(f"vit {name}", 197, n, k)
    yield Case("vit qkv", 197, 2304, 768)
    yield Case("bert qkv", 128, 2304, 768)
    for m in (64, 512, 2048):
        yield from (Case(f"decoder {m} {name}", m, n, k) for name, (n, k) in _DECODER.items())
    yield Case("heads q k^T", 128, 128, 64, 12, "b_transposed")
    yield Case("heads p v", 128, 64, 128, 12, "strided")
    yield Case("a^T b", 512, 512, 512, 1, "a_transposed")
    yield Case("a b", 512, 512, 512, 1, "strided")
    yield Case("rows bert pooler", 1, 768, 768)
    yield Case("rows vit head", 1, 1000, 768)
    for m in (1, 2, 4, 6, 8, 12, 16):
        yield from (Case(f"rows {m} {name}", m, n, k) for name, (n, k) in _DECODER.items() if name != "kv")


def _launch(case: Case, isa: Isa) -> Callable[[], None]:
    m, n, k, batch = case.m, case.n, case.k, case.batch
    packed = case.form == "packed"
    b_k, b_n = {"packed": (0, 0), "b_transposed": (1, batch * k)}.get(case.form, (batch * n, 1))
    b_batch = 0 if packed else (k if case.form == "b_transposed" else n)
    a_m, a_k = (1, m) if case.form == "a_transposed" else (batch * k, 1)
    args = problem.GemmArgs(
        1, batch, m, n, k, 0, k, a_m, a_k, 0, b_batch, b_k, b_n, 0, 1, 0, n, batch * n, 1, 0, 0, 0, 0,
        0, 0, 0, single_bits(1.0),
    )  # fmt: skip
    width = problem.panel_columns(isa)
    operands = [
        room(batch * m * k, 0),
        room(batch * -(-n // width) * width * k, 256),
        room(n, 512),
        None,
        room(batch * m * n, 768),
    ]
    scratch = scratch_room(problem.scratch_bytes(isa, args, packed=packed))
    kernel = library(gemm, isa)[gemm.PACKED if packed else gemm.UNPACKED]
    return call(kernel, operands, args, problem.grid(isa, args), scratch)


def measure(case: Case, isa: Isa) -> tuple[str, float]:
    """The figures of a case, and its share of the limit."""
    run, b_bytes = _launch(case, isa), 4 * case.batch * case.n * case.k
    run()
    repeats = max(1, int(_SECONDS / thread_seconds(run)))
    few = case.m <= 16
    limits, read = [fma_gflops(isa, 1)], [math.inf]
    seconds: list[float] = []
    begin = time.monotonic()
    while len(seconds) < 3 or time.monotonic() - begin < _PATIENCE:
        if few:
            read.append(read_gbps(b_bytes, isa, 1))
        seconds.append(thread_seconds(lambda: [run() for _ in range(repeats)]) / repeats)
        limits.append(fma_gflops(isa, 1))
    around = map(statistics.harmonic_mean, pairwise(limits))
    fastest = sorted(read[1:])[len(read) // 2 :] if few else [math.inf]
    reading = b_bytes / statistics.median(fastest) / 1e9
    shares = [max(case.flops / limit / 1e9, reading) / s for s, limit in zip(seconds, around, strict=True)]
    share = statistics.median(sorted(shares)[3 * len(shares) // 4 :])
    speed = (b_bytes if few else case.flops) / min(seconds) / 1e9
    unit = "GB/s of B" if few else "GFLOP/s"
    median = statistics.median(shares)
    return f"{speed:7.1f} {unit:9}  {share:5.3f} of the limit, median {median:5.3f} of {len(shares)}", share


def main(arguments: list[str]) -> None:
    """Print a line per case, then the geometric means of dense products and of those of few rows."""
    isas = [isa for name, isa in ISAS.items() if name in arguments] or [ISAS[usable_isas()[-1]]]
    words = [word for word in arguments if word not in ISAS]
    for isa in isas:
        ratios: dict[str, list[float]] = {}
        for case in cases():
            if words and not any(word in case.label for word in words):
                continue
            text, ratio = measure(case, isa)
            batch = f"{case.batch} x " if case.batch > 1 else ""
            print(f"{isa.name} {case.label:18} {batch + f'{case.m}x{case.n}x{case.k}':18} {text}", flush=True)
            kind = "few rows" if case.m <= 16 else "packed" if case.form == "packed" else "strided"
            ratios.setdefault(kind, []).append(ratio)
        for kind, values in ratios.items():
            mean, least = statistics.geometric_mean(values), min(values)
            print(f"{isa.name} {kind}: geometric mean {mean:.3f}, least {least:.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
