"""Rank specialization: finds the ranks that inputs of unknown rank can have, and makes an entry with one
program per combination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.compiler.entries import Finished, jit_dispatch
from graphwright.compiler.executables import Compiled
from graphwright.compiler.report import with_dynamic
from graphwright.errors import ModelError
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Graph, Module
from graphwright.ir.types import TensorType
from graphwright.passes.dynamic_sizes import what_stays_dynamic
from graphwright.passes.fixpoints import SHAPES
from graphwright.passes.manager import PassManager
from graphwright.records import dataclass

RANKS = range(6)
"""Ranks that are tried. Larger ones are rare, and are compiled when they are first fed."""
MOST_VARIANTS = 8
MOST_TRIALS = 64
"""Limit on shape inference runs in the search for combinations."""


class TooManyRanks(Exception):
    """The search exceeded MOST_TRIALS or MOST_VARIANTS."""


def has_unknown_ranks(graph: Graph) -> bool:
    """Whether a value in ``graph`` or its regions has unknown rank."""
    return any(value.type.shape is None for node in graph.walk() for value in node.outputs)


def rank_variants(module: Module) -> list[Module]:
    """A copy of ``module`` for each combination of input ranks that passes type inference and determines all
    ranks; all sizes stay symbolic. Empty if there are more than a package should hold.
    """
    try:
        return list(_fix_ranks(module, iter(range(MOST_TRIALS)), iter(range(MOST_VARIANTS))))
    except TooManyRanks:
        return []


def _fix_ranks(module: Module, trials: Iterator[int], slots: Iterator[int]) -> Iterator[Module]:
    """Fixes the first input of unknown rank to each rank that passes inference, then the others
    recursively.
    """
    index = next((value.index for value in module.main.inputs if value.type.shape is None), None)
    if index is None:
        if not has_unknown_ranks(module.main):
            _spend(slots)
            yield module
        return
    for rank in RANKS:
        _spend(trials)
        trial = clone_module(module)
        value = trial.main.inputs[index]
        value.type = TensorType(value.type.dtype, trial.symbols.fresh_sizes(value.name, rank))
        try:
            PassManager((SHAPES,)).run(trial)
        except ModelError:
            continue
        yield from _fix_ranks(trial, trials, slots)


def is_only_variant(variants: Sequence[Module]) -> bool:
    """Whether no other combination of ranks can pass: there is one variant, and its ranks are below the
    largest that was tried.
    """
    return len(variants) == 1 and all((v.type.rank or 0) < RANKS[-1] for v in variants[0].main.inputs)


def _spend(budget: Iterator[int]) -> None:
    if next(budget, None) is None:
        raise TooManyRanks


@dataclass(frozen=True)
class RankVariants:
    """An entry draft with a program for each of ``variants`` of ``general``. Other ranks are compiled at run
    time.
    """

    general: Module
    variants: Sequence[Module]

    @property
    def modules(self) -> Sequence[Module]:
        """One module per combination of ranks."""
        return self.variants

    def finished(self, compiled: Sequence[Compiled]) -> Finished:
        """The entry: a dispatch by rank."""
        cases = [variant.executable for variant in compiled]
        report = with_dynamic("", what_stays_dynamic(self.general))
        records = [record for variant in compiled for record in variant.records]
        return Finished(self.general, Compiled(jit_dispatch(self.general, cases), report, records=records))
