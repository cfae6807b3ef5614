"""Predicts what an *edit*, a change of the partition of a graph into kernels, gains: log(time after /
before).

An edit has these features: the log of the ratio of the estimated times
(:mod:`graphwright.fusion.kernel_cost`), and for each part of these times, its change relative to the time
before the edit. The prediction is linear in the features. The coefficients in ``edit_model.json`` are a ridge
regression on measured edits: ``python -m benchmarks.fusion.fit`` fits them, and shows how often decisions
on unseen patterns are right.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from graphwright.cost.machine import Level, Machine
from graphwright.fusion.kernel_cost import PARTS, KernelCosts, constant_size, roofline
from graphwright.fusion.kernel_nodes import KernelNodes
from graphwright.ir.symbols import Dim

FEATURES: Final = (
    "roofline",
    *(part for part in PARTS if part not in ("launch", "anchor", "kept", "flat_cheap", "flat_costly")),
)
"""Arithmetic that leaves a flat loop is counted where it arrives. Launches count only in the roofline, so
that fewer launches are a gain whatever the coefficients.
"""
LIMIT: Final = 3.0
"""The largest absolute value of a feature: larger ones were not measured."""
FILE: Final = Path(__file__).with_suffix(".json")
"""The coefficients."""
KINDS: Final = ("epilogue", "loops")
"""Edits that change the epilogue of a contraction, and all others. Each kind has its own coefficients."""
Coefficients = Mapping[str, Mapping[str, float]]
"""Coefficients by kind, then by feature."""


@cache
def coefficients() -> Coefficients:
    """The fitted coefficients."""
    read: Coefficients = json.loads(FILE.read_text())["coefficients"]
    return {kind: {name: read[kind][name] for name in FEATURES} for kind in KINDS}


@cache
def digest() -> str:
    """Identifies the fitted coefficients."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()[:32]


def kind_of(before: Sequence[KernelNodes], after: Sequence[KernelNodes]) -> str:
    """One of :data:`KINDS`."""
    has_epilogue = any(kernel.anchor is not None and kernel.rest for kernel in (*before, *after))
    return KINDS[0] if has_epilogue else KINDS[1]


class EditModel:
    """Predicts edits on ``machine``; ``size`` gives a number for each symbolic size."""

    def __init__(
        self, machine: Machine, coefficients: Coefficients, size: Callable[[Dim], int] = constant_size
    ) -> None:
        self.costs = KernelCosts(machine, size)
        self.coefficients = coefficients

    def predict(self, before: Sequence[KernelNodes], after: Sequence[KernelNodes]) -> float:
        """log(time after / before): the edit gains if this is below 0."""
        known = self.coefficients.get(kind_of(before, after), {})
        return sum(known.get(name, 0.0) * value for name, value in self.features(before, after).items())

    def features(
        self, before: Sequence[KernelNodes], after: Sequence[KernelNodes], outside: Level | None = None
    ) -> dict[str, float]:
        """The features by name. ``outside``: the memory that holds operands of the kernels
        (:meth:`KernelCosts.parts`).
        """
        old, new = self.costs.parts(before, outside), self.costs.parts(after, outside)
        time, time_after = sum(map(roofline, old)), sum(map(roofline, new))
        found = {"roofline": math.log(time_after / time)}
        for name in FEATURES[1:]:
            found[name] = (sum(p[name] for p in new) - sum(p[name] for p in old)) / time
        return {name: max(-LIMIT, min(LIMIT, value)) for name, value in found.items()}
