"""Fits the cost model of edits to measurements, and reports how often its decisions are right on patterns
that were not used for fitting.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from benchmarks.fusion.edits import Edit, Partition, Stage, partition_of
from benchmarks.fusion.patterns import PATTERNS, Size
from benchmarks.fusion.results import Measured
from graphwright.config import Options
from graphwright.cost.machine import Level, Machine
from graphwright.cost.operations import COSTLY, operations_of
from graphwright.fusion.benefit import row_refusal
from graphwright.fusion.edit_model import FEATURES, KINDS, EditModel, kind_of
from graphwright.fusion.kernel_nodes import KernelNodes, fits_store
from graphwright.loop_nests.analysis import analyze
from graphwright.loop_nests.axes import NotOneNest

Array = np.ndarray[Any, Any]
FOLDS: Final = 5
RIDGES: Final = (1e-4, 1e-3, 1e-2, 1e-1)
"""Weights of the penalty, for each sample; of these the one that is best on held-out patterns is taken."""


SPREAD: Final = 0.05
"""How far predictions are from measured ratios at best."""
LARGE: Final = 0.25
"""The share of a measured ratio that an error may be."""


@dataclass(frozen=True)
class Sample:
    """A measured edit and its features; ``cached`` and ``cheap``: what the two simple rules say of it."""

    measured: Measured
    kind: str
    features: tuple[float, ...]
    cached: bool
    """Rows stay in the cache between passes: today's rule merges."""
    cheap: bool
    """No costly function gets into a hook: that rule merges."""
    hooked: bool
    """A contraction has a hook after the edit."""

    @property
    def spread(self) -> float:
        """A quarter of the measured interval: about its standard deviation."""
        return (self.measured.estimate.high - self.measured.estimate.low) / 4

    @property
    def ratio(self) -> float:
        """The measured log(after / before)."""
        return self.measured.estimate.median


@cache
def _stage(pattern: str, size: Size, isa: str) -> tuple[Stage, Partition]:
    stage = Stage.of(PATTERNS[pattern].module(size), Options(threads=1, isa=isa))
    return stage, partition_of(stage.merged())


def samples(measured: Sequence[Measured]) -> Iterator[Sample]:
    """The samples of ``measured`` that are decided, and whose edit still exists."""
    for each in measured:
        case = each.case
        if case.control or each.estimate.verdict == "undecided" or case.pattern not in PATTERNS:
            continue
        stage, _ = _stage(case.pattern, case.size, case.isa)
        edit = Edit(stage, case.edge)
        if max(case.edge) < len(stage.nodes()) and edit.name == case.ops:
            found = _sample(each, edit)
            if found is not None:
                yield found


def _sample(measured: Measured, edit: Edit) -> Sample | None:
    nodes = edit.stage.nodes()
    groups = edit.groups()
    before, after = ([KernelNodes.of([nodes[k] for k in sorted(group)]) for group in side] for side in groups)
    if not before or not after:
        return None
    machine = edit.stage.target.machine
    model = EditModel(machine, {})
    named = model.features(before, after, _outside(measured.case.arrays, machine))
    features = tuple(named[name] for name in FEATURES)
    cached, cheap = _stays_cached(after, machine), _is_cheap(after)
    hooked = any(t.anchor is not None and not fits_store(t, t.anchor) for t in after)
    return Sample(measured, kind_of(before, after), features, cached, cheap, hooked)


def _outside(arrays: str, machine: Machine) -> Level | None:
    return {"hot": None, "l2": machine.l3, "l3": machine.memory}[arrays]


def _stays_cached(tasks: Sequence[KernelNodes], machine: Machine) -> bool:
    for task in tasks:
        try:
            nest = analyze([node for node in task.nodes if node is not task.anchor])
        except NotOneNest:
            continue
        if row_refusal(nest, machine) is not None:
            return False
    return True


def _is_cheap(kernels: Sequence[KernelNodes]) -> bool:
    """Whether no epilogue of ``kernels`` computes a costly operation."""
    epilogues = [kernel for kernel in kernels if kernel.anchor is not None]
    return not any(operations_of(node) >= COSTLY for kernel in epilogues for node in kernel.rest)


def fit(found: Sequence[Sample], ridge: float) -> dict[str, Array]:
    """The coefficients of :data:`FEATURES` for each kind of edit."""
    return {kind: _fit([s for s in found if s.kind == kind], ridge) for kind in KINDS}


def _fit(found: Sequence[Sample], ridge: float) -> Array:
    """Coefficients without an intercept: an edit that changes nothing gains nothing.

    The penalty draws them to the roofline alone (A. E. Hoerl and R. W. Kennard, "Ridge Regression", 1970).
    """
    prior = np.array([float(name == "roofline") for name in FEATURES])
    if not found:
        return prior
    sure = weights(found)
    x = np.array([sample.features for sample in found]) * sure[:, None]
    y = np.array([sample.ratio for sample in found]) * sure
    scale = np.maximum(np.sqrt((x**2).mean(axis=0)), 1e-6)
    x = x / scale
    normal = x.T @ x + ridge * len(found) * np.eye(len(FEATURES))
    solved: Array = np.linalg.solve(normal, x.T @ (y - x @ (prior * scale))) / scale + prior
    return solved


def held_out(found: Sequence[Sample], ridge: float, group: Callable[[Sample], str]) -> Array:
    """Predictions of all, each by coefficients that were fitted without its group.

    With more groups than folds, each fold holds out several: in their order, one after the other.
    """
    names = sorted({group(sample) for sample in found})
    fold = {name: k % FOLDS if len(names) > FOLDS else k for k, name in enumerate(names)}
    predicted = np.zeros(len(found))
    for number in set(fold.values()):
        coefficients = fit([sample for sample in found if fold[group(sample)] != number], ridge)
        for k, sample in enumerate(found):
            if fold[group(sample)] == number:
                predicted[k] = coefficients[sample.kind] @ np.array(sample.features)
    return predicted


def rules(found: Sequence[Sample], predicted: Array) -> Mapping[str, Sequence[bool]]:
    """The decisions of each rule."""
    return {
        "model": [bool(value < 0) for value in predicted],
        "model of hooks alone": [
            bool(value < 0) if s.hooked else s.cached for value, s in zip(predicted, found, strict=True)
        ],
        "always": [True] * len(found),
        "never": [False] * len(found),
        "rows stay in cache": [sample.cached for sample in found],
        "nothing costly in a hook": [sample.cheap for sample in found],
        "roofline alone": [sample.features[0] < 0 for sample in found],
        "best": [sample.ratio < 0 for sample in found],
    }


def error(found: Sequence[Sample], predicted: Array) -> float:
    """The median of how far predicted times after the edit are from measured ones."""
    return statistics.median(
        math.exp(abs(s.ratio - p)) - 1 for s, p in zip(found, predicted.tolist(), strict=True)
    )


def best_ridge(found: Sequence[Sample]) -> float:
    """The weight of the penalty with the least squared error on held-out patterns, samples weighted as in
    :func:`fit`.
    """
    target, sure = np.array([sample.ratio for sample in found]), weights(found)
    return min(RIDGES, key=lambda r: float((((held_out(found, r, by_pattern) - target) * sure) ** 2).mean()))


def weights(found: Sequence[Sample]) -> Array:
    """The weights of samples. The weight is lower if the measurement is less certain than the model, and if
    the gain or loss is so large that an error hardly changes the decision.
    """
    return SPREAD / np.array([math.hypot(SPREAD, s.spread, LARGE * s.ratio) for s in found])


def by_pattern(sample: Sample) -> str:
    """The name of the sample's pattern."""
    return sample.measured.case.pattern


def by_anchor(sample: Sample) -> str:
    """The kind of contraction in the sample's pattern."""
    return PATTERNS[sample.measured.case.pattern].anchor


def by_isa(sample: Sample) -> str:
    """The ISA of the sample."""
    return sample.measured.case.isa
