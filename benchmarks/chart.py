"""Draws the ratios of models to peers: ``python -m benchmarks.chart`` writes a PNG for each setting."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks import MODEL_RESULTS
from benchmarks.report import OURS, TITLES, Result, read_results, setting, setting_title

INCHES_A_MODEL = 0.45
TICKS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)


def draw(results: Sequence[Result], title: str) -> Figure:
    """A bar for each model and peer: the peer's time over ours, with its quartiles, on a logarithmic axis."""
    peers = [peer for peer in TITLES if any(peer in result["ratios"] for result in results)]
    figure = Figure(figsize=(8, 1.5 + INCHES_A_MODEL * len(results)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / max(1, len(peers))
    for index, peer in enumerate(peers):
        rows = [(y, r["ratios"][peer]) for y, r in enumerate(results) if peer in r["ratios"]]
        medians = [found["median"] for _, found in rows]
        below = [found["median"] - found["low"] for _, found in rows]
        above = [found["high"] - found["median"] for _, found in rows]
        places = [y + (index - (len(peers) - 1) / 2) * height for y, _ in rows]
        widths = [median - 1 for median in medians]
        axes.barh(places, widths, height, left=1, xerr=(below, above), label=TITLES[peer], capsize=2)
    axes.set_xscale("log")
    least, most = axes.get_xlim()
    axes.set_xticks([tick for tick in TICKS if least <= tick <= most])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(results)), [result["model"].split(".")[0] for result in results])
    axes.invert_yaxis()
    axes.set_xlabel(f"time over {OURS}'s: above 1, {OURS} is faster")
    axes.set_title(title)
    if peers:
        axes.legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chart", description=__doc__)
    parser.add_argument("--results", type=Path, default=MODEL_RESULTS, help="folder of the JSON files")
    folder: Path = parser.parse_args().results
    results = read_results(folder)
    for threads, busy in sorted({setting(result) for result in results}):
        chosen = [result for result in results if setting(result) == (threads, busy)]
        file = folder / f"ratios.{threads}{'.busy' * busy}.png"
        draw(chosen, setting_title(threads, busy)).savefig(file, dpi=120, metadata={"Software": None})
        print(file)


if __name__ == "__main__":
    main()
