"""Compares chains of convolutions in bands of rows with the same chains stage by stage.

    python -m benchmarks.fusion.bands [names] [--rows 2 4 8 16] [--seconds 2] [--threads 1]

A line shows the number of rows that the compiler chooses (0: it does not use bands) and, for this number and
for those of ``--rows``, the time with bands relative to the time stage by stage: the median and its 95 %
confidence interval (:mod:`benchmarks.fusion.paired`). ``hot`` runs use the same arrays each time, ``l3`` runs
use arrays that are in no cache. Results are written to ``benchmarks/results/bands/THREADS.json``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final
from unittest import mock

import onnx

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.fusion.chains import Layer, chain
from benchmarks.fusion.edits import Compiled
from benchmarks.fusion.measure import compare
from benchmarks.records import write_rows
from graphwright.executable.nodes import Program
from graphwright.ir.symbols import Dim
from graphwright.kernels.bands import chains
from graphwright.kernels.bands.bands import Stage
from graphwright.kernels.bands.benefit import Costed, rows_of_band, worth_banding
from graphwright.runtime.devices.cpu import Cpu
from graphwright.targets.cpu.isa import Isa
from graphwright.tools.measuring.engines import OURS

FOLDER: Final = RESULTS / "bands"
INVERTED_3: Final = (Layer(96), Layer(0, 3), Layer(24, act=""))
INVERTED_5: Final = (Layer(96, act="HardSwish"), Layer(0, 5, act="HardSwish"), Layer(24, act=""))
CHAINS: Final[dict[str, tuple[Sequence[Layer], int, tuple[int, int]]]] = {
    "dw_pw_64@112": ((Layer(0, 3), Layer(64)), 32, (112, 112)),
    "dw_pw_96@160": ((Layer(0, 3), Layer(96)), 48, (160, 160)),
    "dw_pw_hard_swish_96@160": ((Layer(0, 3, act="HardSwish"), Layer(96, act="HardSwish")), 48, (160, 160)),
    "stem_dw_pw@320": ((Layer(16, 3, 2), Layer(0, 3), Layer(32)), 3, (320, 320)),
    "inverted_16_96_24@112": (INVERTED_3, 16, (112, 112)),
    "inverted_16_96_24_stride_2@112": ((Layer(96), Layer(0, 3, 2), Layer(24, act="")), 16, (112, 112)),
    "inverted_24_96_24_5x5@160": (INVERTED_5, 24, (160, 160)),
    "inverted_24_144_24@56": ((Layer(144), Layer(0, 3), Layer(24, act="")), 24, (56, 56)),
    "inverted_32_192_32@28": ((Layer(192), Layer(0, 3), Layer(32, act="")), 32, (28, 28)),
    "inverted_silu_16_96_24@112": (
        (Layer(96, act="Silu"), Layer(0, 3, act="Silu"), Layer(24, act="")), 16, (112, 112),
    ),
    "conv_conv_24@160": ((Layer(24, 3, 2), Layer(24, 3, 2)), 24, (320, 320)),
    "dw7_96_24@80x120": ((Layer(0, 7, act=""), Layer(24, act="")), 96, (80, 120)),
    "pw_dw_192@40": ((Layer(192), Layer(0, 3)), 192, (40, 40)),
}  # fmt: skip
"""By name: layers, channels of the input, and its height and width."""


@dataclass(frozen=True)
class Row:
    """One comparison; ``ratio`` is the median of the times in bands over those stage by stage."""

    name: str
    rows: int
    chosen: bool
    rotation: str
    ratio: float
    low: float
    high: float
    ms: float
    """Milliseconds of a run stage by stage."""


def compiled(model: onnx.ModelProto, threads: int, rows: int | None = None) -> tuple[Compiled, int]:
    """The program in bands of ``rows`` rows, and that number. 0: stage by stage; None: as the compiler
    chooses.
    """
    chosen = [0]

    def rows_taken(isa: Isa, stages: Sequence[Stage]) -> Dim:
        taken = rows or rows_of_band(isa, stages)
        assert isinstance(taken, int)  # all sizes are known
        chosen[0] = taken
        return taken

    def parts(isa: Isa, forms: Sequence[Sequence[Costed]]) -> list[slice]:
        if rows is None:
            return worth_banding(isa, forms)
        return [slice(0, len(forms[0]))] if rows else []

    with (
        mock.patch.object(chains, "rows_of_band", rows_taken),
        mock.patch.object(chains, "worth_banding", parts),
    ):
        made = gw.compile(model, options=gw.CompileOptions(threads=threads))
    program, executor = made.entry.executable, made.executor
    assert isinstance(program, Program)
    assert isinstance(executor, Cpu)
    return Compiled(program, executor), chosen[0]


def measured(name: str, asked: Sequence[int], threads: int, seconds: float) -> Iterator[Row]:
    """Measures the compiler's choice with hot and cold caches, then the rows in ``asked``."""
    layers, cin, (h, w) = CHAINS[name]
    model = chain(layers, cin, (1, h, w))
    stages, _ = compiled(model, threads, 0)
    own, chosen = compiled(model, threads)
    ways = [(chosen, own, rotation) for rotation in ("hot", "l3") if chosen]
    ways += [
        (rows, compiled(model, threads, rows)[0], rotation) for rows in asked for rotation in ("hot", "l3")
    ]
    if not ways:
        yield Row(name, 0, chosen=True, rotation="", ratio=1.0, low=1.0, high=1.0, ms=0.0)
    for rows, banded, rotation in ways:
        found, ns = compare(stages, banded, rotation, threads, seconds)
        ratio, low, high = (math.exp(x) for x in (found.median, found.low, found.high))
        yield Row(name, rows, banded is own, rotation, ratio, low, high, ns / 1e6)


def main() -> None:
    """Print a line for each comparison, and write them all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="chains with one of these in their names; all by default")
    parser.add_argument("--rows", type=int, nargs="*", default=[], help="rows of a band, beside the choice")
    parser.add_argument("--seconds", type=float, default=2.0, help="for one comparison, at most")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    rows: list[Row] = []
    for name in CHAINS:
        if given.names and not any(part in name for part in given.names):
            continue
        for row in measured(name, given.rows, given.threads, given.seconds):
            rows.append(row)
            mark = "chosen" if row.chosen else ""
            print(f"{name:32} rows {row.rows:3} {row.rotation:4} {row.ratio:.3f} "
                  f"({row.low:.3f}-{row.high:.3f}) {row.ms:.3f} ms {mark}", flush=True)  # fmt: skip
    write_rows(FOLDER / f"{given.threads}.json", [OURS, "numpy"], map(asdict, rows))


if __name__ == "__main__":
    main()
