"""Models with inputs of open rank: which ranks they can have, and an entry with a program for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.compiler.entries import Finished, jit_dispatch
from graphwright.compiler.executables import Compiled
from graphwright.errors import ModelError
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Graph, Module
from graphwright.ir.types import TensorType
from graphwright.passes.dynamic import what_stays_dynamic
from graphwright.passes.fixpoints import SHAPES
from graphwright.passes.manager import PassManager
from graphwright.records import dataclass
from graphwright.report import with_dynamic

RANKS = range(6)
"""Ranks that are tried: larger ones are rare, and made when they are fed."""
MOST_VARIANTS = 8
MOST_TRIALS = 64
"""Inferences spent on finding the combinations of ranks."""


class TooManyRanks(Exception):
    """More combinations of ranks are to be tried, or are possible, than a package is to hold."""


def lacks_ranks(graph: Graph) -> bool:
    """Whether some rank is not known."""
    return any(value.type.shape is None for node in graph.walk() for value in node.outputs)


def ranked(module: Module) -> list[Module]:
    """A copy of ``module`` for each combination of ranks of its inputs with which all ranks are known and its
    types fit, all sizes left open; none if they are more than a package is to hold.
    """
    try:
        return list(_ranked(module, iter(range(MOST_TRIALS)), iter(range(MOST_VARIANTS))))
    except TooManyRanks:
        return []


def _ranked(module: Module, trials: Iterator[int], places: Iterator[int]) -> Iterator[Module]:
    """Fixes the first input of open rank in each way that fits, then those behind it."""
    index = next((value.index for value in module.main.inputs if value.type.shape is None), None)
    if index is None:
        if not lacks_ranks(module.main):
            _take(places)
            yield module
        return
    for rank in RANKS:
        _take(trials)
        trial = clone_module(module)
        value = trial.main.inputs[index]
        dims = tuple(trial.symbols.fresh(f"{value.name}_{axis}") for axis in range(rank))
        value.type = TensorType(value.type.dtype, dims)
        try:
            PassManager((SHAPES,)).run(trial)
        except ModelError:
            continue
        yield from _ranked(trial, trials, places)


def is_only(variants: Sequence[Module]) -> bool:
    """Whether no other ranks fit than those of one variant: larger ones than are tried may go with the
    largest.
    """
    return len(variants) == 1 and all((v.type.rank or 0) < RANKS[-1] for v in variants[0].main.inputs)


def _take(numbers: Iterator[int]) -> None:
    if next(numbers, None) is None:
        raise TooManyRanks


@dataclass(frozen=True)
class RankVariants:
    """A program for each of ``variants`` of ``general``; other ranks are compiled when they come."""

    general: Module
    variants: Sequence[Module]

    @property
    def modules(self) -> Sequence[Module]:
        """One for each choice of ranks."""
        return self.variants

    def finished(self, compiled: Sequence[Compiled]) -> Finished:
        """A dispatch by rank."""
        cases = [made.executable for made in compiled]
        report = with_dynamic("", what_stays_dynamic(self.general))
        records = [record for made in compiled for record in made.records]
        return Finished(self.general, Compiled(jit_dispatch(self.general, cases), report, records=records))
