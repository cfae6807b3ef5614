"""Fits the edit model, and prints the quality of decisions by it.

    python -m benchmarks.fusion.fit            # tables, from benchmarks/results/fusion/edits.json
    python -m benchmarks.fusion.fit --write    # writes src/graphwright/fusion/edit_model.json as well

Every line is about edits to which the coefficients were not fitted: all edits of a pattern, of a kind of
contraction or of an ISA are held out together. A decision is right if the other one would not be more than
3 % faster. Regret is the geometric mean of the time after each decision relative to that after the best one,
minus 1.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.fusion.model import (
    Sample,
    best_ridge,
    by_anchor,
    by_isa,
    by_pattern,
    error,
    fit,
    held_out,
    rules,
    samples,
)
from benchmarks.fusion.results import FILE, read
from benchmarks.fusion.score import HEAD, score
from graphwright.fusion.edit_model import FEATURES, KINDS
from graphwright.fusion.edit_model import FILE as COEFFICIENTS


def table(
    found: Sequence[Sample],
    ridge: float,
    group: Callable[[Sample], str],
    shown: Callable[[Sample], bool] = lambda sample: True,
) -> str:
    """The quality of each rule for the edits that are ``shown``; groups are held out by ``group``."""
    predicted = held_out(found, ridge, group)
    chosen = [k for k, sample in enumerate(found) if shown(sample)]
    found, predicted = [found[k] for k in chosen], predicted[chosen]
    ratios = [sample.ratio for sample in found]
    lines = [f"{'rule':26} {HEAD}"]
    for name, merges in rules(found, predicted).items():
        lines.append(f"{name:26} {score(ratios, merges)}")
    return "\n".join([*lines, f"median error of predicted times: {error(found, predicted):.1%}"])


def groups(
    found: Sequence[Sample], ridge: float, hold: Callable[[Sample], str], by: Callable[[Sample], str]
) -> str:
    """The model's decisions with groups held out by ``hold``, a line for each group of ``by``."""
    predicted = held_out(found, ridge, hold)
    lines = []
    for name in sorted({by(sample) for sample in found}):
        chosen = [k for k, sample in enumerate(found) if by(sample) == name]
        made = score([found[k].ratio for k in chosen], [bool(predicted[k] < 0) for k in chosen])
        lines.append(f"{name:26} {made}")
    return "\n".join(lines)


def _is_of_kind(kind: str, sample: Sample) -> bool:
    return sample.kind == kind


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fusion.fit",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--write", action="store_true", help=f"write {COEFFICIENTS.name} for the compiler")
    parser.add_argument("--misses", type=int, default=0, help="print this many of the largest misses")
    chosen = parser.parse_args()
    found = list(samples(read(chosen.results)))
    ridge = best_ridge(found)
    print(f"{len(found)} edits of {len({by_pattern(s) for s in found})} patterns, ridge {ridge}\n")
    print("held out by pattern\n" + table(found, ridge, by_pattern))
    for kind in KINDS:
        print(f"\nof these {kind}\n" + table(found, ridge, by_pattern, partial(_is_of_kind, kind)))
    print("\nof these by kind of contraction\n" + groups(found, ridge, by_pattern, by_anchor))
    print("\nheld out by kind of contraction\n" + groups(found, ridge, by_anchor, by_anchor))
    print("\nheld out by ISA\n" + groups(found, ridge, by_isa, by_isa))
    text = written(found, ridge)
    print("\n" + text)
    if chosen.write:
        COEFFICIENTS.write_text(text)
    for sample, predicted in misses(found, ridge)[: chosen.misses]:
        case, features = sample.measured.case, dict(zip(FEATURES, sample.features, strict=True))
        shown = {name: round(value, 3) for name, value in features.items() if value}
        print(f"{case.pattern} {case.size} {case.ops} {case.isa} {case.arrays}", end=" ")
        print(f"measured {sample.ratio:+.3f} predicted {predicted:+.3f} {shown}")


def written(found: Sequence[Sample], ridge: float) -> str:
    """The file of coefficients: a line for each, with what they were fitted to."""
    about = {"edits": len(found), "patterns": len({by_pattern(sample) for sample in found}), "ridge": ridge}
    fitted = {
        kind: {name: round(value, 4) for name, value in zip(FEATURES, values.tolist(), strict=True)}
        for kind, values in fit(found, ridge).items()
    }
    return json.dumps({"fitted_to": about, "coefficients": fitted}, indent=1) + "\n"


def misses(found: Sequence[Sample], ridge: float) -> list[tuple[Sample, float]]:
    """Edits with their held-out predictions, the largest losses first."""
    predicted = held_out(found, ridge, by_pattern).tolist()
    wrong = [(s, p) for s, p in zip(found, predicted, strict=True) if (s.ratio < 0) != (p < 0)]
    return sorted(wrong, key=lambda pair: -abs(pair[0].ratio))


if __name__ == "__main__":
    main()
