"""Writes benchmarks/results/models as tables: a summary in README.md, all results in benchmarks/README.md.

``python -m benchmarks.report`` changes the files; ``--check`` only reports whether they are up to date.
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

from benchmarks import MODEL_RESULTS
from benchmarks.pages import Part, table, threads_text

ROOT = Path(__file__).parents[1]
PART = Part("results", "python -m benchmarks.report")
OURS = "graphwright"
TITLES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "inductor": "Inductor"}
Result = Mapping[str, Any]
DEFINITIONS = """\
The engines take turns on the same cores, round by round. `graphwright` is the median time of one run. The
other engines' columns are their time divided by graphwright's in the same round: the median over all rounds,
with the quartiles in parentheses. Above 1, graphwright is faster. `limit` is the percentage of the roofline
that graphwright reaches; it can exceed 100 %, because the roofline counts multiplications that Winograd
convolutions avoid. `compile` is the time from the ONNX file to the `.om` file. `memory` is the peak resident
memory of a process that loads and runs the model. The last row has the geometric means of the ratios.
"""
SUMMARY = """\
Time of the other engine divided by graphwright's time, in the same round on the same cores: above 1,
graphwright is faster. `memory` is the same ratio of the peak resident memory; both means are geometric.
"""


def read_results(folder: Path = MODEL_RESULTS) -> list[Result]:
    """All results, by setting, then by model."""
    found = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    return sorted(found, key=lambda result: (setting(result), result["model"]))


def setting(result: Result) -> tuple[int, bool]:
    """Threads, and whether a neighbor took one of their cores."""
    return result["threads"], result.get("busy", False)


def setting_title(threads: int, busy: bool) -> str:
    """The setting as text."""
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


def summary(results: Sequence[Result]) -> str:
    """For each setting and peer the mean, the least and the greatest ratio, as Markdown."""
    if not results:
        return report(results)
    head = ["threads", "compared with", "models", "mean", "least", "greatest", "memory"]
    rows = [
        _summary_row([r for r in results if setting(r) == key and peer in r["ratios"]], key, peer)
        for key in sorted({setting(result) for result in results})
        for peer in TITLES
        if any(setting(r) == key and peer in r["ratios"] for r in results)
    ]
    return "\n".join([SUMMARY, table(head, rows, texts=(0, 1)), _origin(results, commands=False)])


def _summary_row(results: Sequence[Result], key: tuple[int, bool], peer: str) -> list[str]:
    ratios = sorted((r["ratios"][peer]["median"], _name(r)) for r in results)
    memory = [r["engines"][peer]["peak_bytes"] / r["engines"][OURS]["peak_bytes"] for r in results]
    (least, slowest), (greatest, fastest) = ratios[0], ratios[-1]
    return [
        f"{key[0]}{', one of their cores busy' * key[1]}",
        TITLES[peer],
        str(len(ratios)),
        _mean([ratio for ratio, _ in ratios]),
        f"{least:.2f} {slowest}",
        f"{greatest:.2f} {fastest}",
        _mean(memory),
    ]


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


def _origin(results: Sequence[Result], commands: bool = True) -> str:
    """Machines, versions and, on request, commands."""
    machines = sorted({f"{r['machine']['cpu']}, {r['machine']['usable_cores']} cores" for r in results})
    versions = sorted({f"{TITLES.get(n, n)} {v}" for r in results for n, v in r["versions"].items()})
    lines = sorted({command_text(r["command"]) for r in results}) if commands else []
    text = f" Commands: {'; '.join(f'`{line}`' for line in lines)}." if lines else ""
    return f"On {'; '.join(machines)}. {', '.join(versions)}.{text}\n"


def command_text(command: Sequence[str]) -> str:
    """``python -m benchmarks.NAME MODEL`` and its options, whatever the model."""
    return " ".join([*command[:3], "MODEL", *command[4:]])


PAGES = {ROOT / "README.md": summary, ROOT / "benchmarks" / "README.md": report}
"""The pages with results, and what writes them."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    check = parser.parse_args().check
    results = read_results()
    texts = {page: PART.filled(page.read_text(), write(results)) for page, write in PAGES.items()}
    stale = [page for page, text in texts.items() if page.read_text() != text]
    for page in stale:
        print(f"{page.relative_to(ROOT)} {'is out of date: make docs' if check else 'was rewritten'}")
        if not check:
            page.write_text(texts[page])
    sys.exit(check and bool(stale))


if __name__ == "__main__":
    main()
