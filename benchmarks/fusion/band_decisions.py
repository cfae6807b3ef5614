"""Measures how often the compiler's decision to run a chain of convolutions in bands of rows is right.

    python -m benchmarks.fusion.band_decisions                # writes benchmarks/results/bands/decisions.json
    python -m benchmarks.fusion.band_decisions dw3_pw --seconds 1
    python -m benchmarks.fusion.band_decisions --list

Each chain runs in bands and stage by stage, in turns in one process (:mod:`benchmarks.fusion.paired`). A
decision is right if the other one is not more than 3 % faster. Regret is the geometric mean of the time after
each decision relative to that after the best one, minus 1.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final
from unittest import mock

import onnx

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.fusion.chains import Layer, chain
from benchmarks.fusion.edits import Compiled
from benchmarks.fusion.measure import compare
from benchmarks.fusion.paired import Estimate
from benchmarks.fusion.score import HEAD, score
from benchmarks.records import write_rows
from graphwright.executable.nodes import Program
from graphwright.fusion.decision_text import decode_decisions
from graphwright.fusion.decisions import Kind, Verdict
from graphwright.kernels.bands import chains
from graphwright.runtime.devices.cpu import Cpu
from graphwright.tools.measuring.engines import OURS

FILE: Final = RESULTS / "bands" / "decisions.json"
SIDES: Final = (28, 56, 80, 112, 160)


@dataclass(frozen=True)
class Case:
    """A chain of ``layers`` on an image of ``channels`` with this side; ``kind``: the pattern."""

    kind: str
    layers: tuple[Layer, ...]
    channels: int
    side: int

    @property
    def name(self) -> str:
        """The kind, the channels of the image and of each layer, and the side."""
        channels = "-".join(str(layer.cout or "dw") for layer in self.layers)
        return f"{self.kind} {self.channels}-{channels}@{self.side}"

    def model(self) -> onnx.ModelProto:
        """The chain with seeded weights."""
        return chain(self.layers, self.channels, (1, self.side, self.side))


def cases() -> Iterator[Case]:
    """At least 300 cases of 10 kinds."""
    for channels, side in product((16, 32, 48, 64, 96), SIDES):
        for window, act in ((3, "Relu"), (5, "HardSwish")):
            depthwise = Layer(0, window, act=act)
            yield Case(f"dw{window}_pw_{act}", (depthwise, Layer(2 * channels, act=act)), channels, side)
            yield Case(f"pw_dw{window}_{act}", (Layer(2 * channels, act=act), depthwise), channels, side)
    for channels, side, expansion in product((16, 24, 32, 48), SIDES, (4, 6)):
        for act in ("Relu", "Silu"):
            wide, narrow = Layer(channels * expansion, act=act), Layer(channels, act="")
            yield Case(f"inverted_{act}", (wide, Layer(0, 3, act=act), narrow), channels, side)
            yield Case(f"inverted_stride_{act}", (wide, Layer(0, 3, 2, act=act), narrow), channels, side)
    for channels, side in product((16, 24, 32, 64), (*SIDES, 240)):
        strided = Layer(channels, 3, 2)
        yield Case("conv_conv", (strided, strided), channels, side)
        yield Case("conv_pw", (strided, Layer(2 * channels)), channels, side)


@dataclass(frozen=True)
class Row:
    """A case: log(time in bands / time stage by stage), and whether the compiler chooses bands."""

    case: Case
    estimate: Estimate
    is_chosen: bool
    microseconds: float
    """Stage by stage."""

    def as_json(self) -> dict[str, Any]:
        """The row for JSON, with ratios instead of logarithms."""
        found = self.estimate
        low, ratio, high = (round(math.exp(x), 4) for x in (found.low, found.median, found.high))
        return {
            "kind": self.case.kind, "name": self.case.name, "ratio": ratio, "low": low, "high": high,
            "verdict": found.verdict, "bands": self.is_chosen, "us": round(self.microseconds, 1),
        }  # fmt: skip

    def __str__(self) -> str:
        made = self.as_json()
        span = f"{made['ratio']:.3f} ({made['low']:.3f}-{made['high']:.3f})"
        chosen = "bands" if self.is_chosen else ""
        return f"{self.case.name:40} {span} {self.microseconds:9.1f} us {made['verdict']:9} {chosen}"


def compiled(model: onnx.ModelProto, parts: Callable[[int], list[slice]] | None) -> tuple[Compiled, bool]:
    """Compiles ``model`` with ``parts`` of its chain in bands; by default the compiler chooses them. Returns
    the compiled model, and whether any part runs in bands.
    """
    chosen: AbstractContextManager[object] = nullcontext()
    if parts is not None:
        chosen = mock.patch.object(chains, "worth_banding", lambda isa, forms: parts(len(forms[0])))
    with chosen:
        made = gw.compile(model, options=gw.CompileOptions(threads=1))
    program, executor = made.entry.executable, made.executor
    assert isinstance(program, Program)
    assert isinstance(executor, Cpu)
    decisions = decode_decisions(made.entry.decisions)
    is_banded = any(d.edit.kind is Kind.BAND and d.verdict is Verdict.TAKEN for d in decisions)
    return Compiled(program, executor), is_banded


def measured(case: Case, seconds: float) -> Row | None:
    """``case`` in bands compared with stage by stage, on the same arrays; None if no bands are legal."""
    model = case.model()
    banded, is_legal = compiled(model, lambda count: [slice(0, count)])
    if not is_legal:
        return None
    stages, _ = compiled(model, lambda count: [])
    _, is_chosen = compiled(model, None)
    found, nanoseconds = compare(stages, banded, "hot", 1, seconds)
    return Row(case, found, is_chosen, nanoseconds / 1e3)


def summary(rows: Sequence[Row]) -> str:
    """How often decisions are right, by the compiler and by two trivial rules."""
    known = [row for row in rows if row.estimate.verdict != "undecided"]
    lines = [f"{len(rows)} chains of {len({row.case.kind for row in rows})} kinds, {len(known)} decided"]
    if not known:
        return lines[0]
    ratios = [row.estimate.median for row in known]
    ways = {
        "compiler": [row.is_chosen for row in known],
        "always": [True] * len(known),
        "never": [False] * len(known),
    }
    scores = [f"{name:10} {score(ratios, chosen)}" for name, chosen in ways.items()]
    return "\n".join([*lines, f"{'decision':10} {HEAD}", *scores])


def main() -> None:
    """Print a line for each chain and a summary, and write them all."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fusion.band_decisions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a chain's name")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most for one chain")
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--list", action="store_true", help="print the names of the chains alone")
    given = parser.parse_args()
    chosen = [case for case in cases() if any(name in case.name for name in given.names or [""])]
    if given.list:
        print("\n".join(case.name for case in chosen))
        return
    rows: list[Row] = []
    for case in chosen:
        if (row := measured(case, given.seconds)) is not None:
            rows.append(row)
            print(row, flush=True)
    print(summary(rows))
    write_rows(given.results, [OURS], [row.as_json() for row in rows])


if __name__ == "__main__":
    main()
