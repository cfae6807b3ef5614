"""Writes the results in benchmarks/results as tables into README.md and benchmarks/README.md.

``python -m benchmarks.report`` changes the files; ``--check`` only says whether they are up to date.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import Part, table, threads_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md")
PART = Part("results", "python -m benchmarks.report")
OURS = "graphwright"
TITLES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "inductor": "Inductor"}
Result = Mapping[str, Any]
DEFINITIONS = """\
The engines take turns, round by round, on the same cores. `graphwright` is the median time of one run. A
peer's column is its time divided by graphwright's, taken within each round: the median over the rounds, and
the quartiles in parentheses. Above 1, graphwright is faster. `limit` is the share of the machine's limit
(its roofline) that graphwright reaches, taken in the same way; it is above 100 % where Winograd's
convolutions save multiplications that the limit counts. `compile` is the time from the ONNX file to
the `.om` file. The columns of memory are the most that a process which loads and runs the model had
resident. The last row has geometric means of the ratios.
"""


def read_results(folder: Path = RESULTS) -> list[Result]:
    """All results, by setting, then by model."""
    found = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    return sorted(found, key=lambda result: (setting(result), result["model"]))


def setting(result: Result) -> tuple[int, bool]:
    """Threads, and whether a neighbour took one of their cores."""
    return result["threads"], result.get("busy", False)


def setting_title(threads: int, busy: bool) -> str:
    """A setting in words."""
    return f"{threads_text(threads)}{', one of their cores busy' * busy}"


def report(results: Sequence[Result]) -> str:
    """A table for each number of threads, and what it was measured on, as Markdown."""
    if not results:
        return "No results are recorded yet: `make bench` measures.\n"
    tables = [
        _table([r for r in results if setting(r) == key], setting_title(*key))
        for key in sorted({setting(result) for result in results})
    ]
    return "\n".join([DEFINITIONS, *tables, _origin(results)])


def _table(results: Sequence[Result], title: str) -> str:
    peers = [name for name in TITLES if any(name in result["engines"] for result in results)]
    engines = (OURS, *peers)
    memory = [f"{TITLES[peer]}'s" for peer in peers]
    head = ["model", OURS, *(f"{TITLES[peer]} / {OURS}" for peer in peers), "limit", "compile"]
    head += ["memory", *memory]
    rows = [
        [
            _name(result),
            _time(result),
            *(_ratio(result, peer) for peer in peers),
            _limit(result),
            f"{result['compile']['seconds']:.1f} s",
            *(_memory(result, engine) for engine in engines),
        ]
        for result in results
    ]
    means = [_mean([r["ratios"][peer]["median"] for r in results if peer in r["ratios"]]) for peer in peers]
    rows.append(["geometric mean", "", *means, *[""] * (len(head) - 2 - len(peers))])
    return f"{title}:\n\n{table(head, rows)}"


def _name(result: Result) -> str:
    return f"`{result['model'].split('.')[0]}`"


def _time(result: Result) -> str:
    milliseconds = result["engines"][OURS]["median_ns"] / 1e6
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.2f} s"
    return f"{milliseconds:#.3g} ms".replace(". ", " ")


def _ratio(result: Result, peer: str) -> str:
    """The peer's time over graphwright's: the median of the rounds' ratios, and their quartiles."""
    if peer not in result["ratios"]:
        return "-"
    found = result["ratios"][peer]
    return f"{found['median']:.2f} ({found['low']:.2f}-{found['high']:.2f})"


def _mean(ratios: Sequence[float]) -> str:
    return f"{math.exp(statistics.fmean(map(math.log, ratios))):.2f}" if ratios else "-"


def _limit(result: Result) -> str:
    """graphwright's share of the roofline."""
    return f"{result['roofline']['shares'][OURS]['median']:.0%}" if "roofline" in result else "-"


def _memory(result: Result, engine: str) -> str:
    if engine not in result["engines"]:
        return "-"
    return f"{result['engines'][engine]['peak_bytes'] / 2**20:.0f} MiB"


def _origin(results: Sequence[Result]) -> str:
    """Machines, versions and commands."""
    machines = sorted({f"{r['machine']['cpu']}, {r['machine']['usable_cores']} cores" for r in results})
    versions = sorted({f"{TITLES.get(n, n)} {v}" for r in results for n, v in r["versions"].items()})
    commands = sorted({command_text(r["command"]) for r in results})
    return (
        f"On {'; '.join(machines)}. {', '.join(versions)}. Commands: "
        + "; ".join(f"`{command}`" for command in commands)
        + ".\n"
    )


def command_text(command: Sequence[str]) -> str:
    """``python -m benchmarks.NAME MODEL`` and its options, whatever the model."""
    return " ".join([*command[:3], "MODEL", *command[4:]])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    check = parser.parse_args().check
    text = report(read_results())
    stale = [page for page in PAGES if PART.filled(page.read_text(), text) != page.read_text()]
    for page in stale:
        print(f"{page.relative_to(ROOT)} {'is out of date: make docs' if check else 'is written anew'}")
        if not check:
            page.write_text(PART.filled(page.read_text(), text))
    sys.exit(check and bool(stale))


if __name__ == "__main__":
    main()
