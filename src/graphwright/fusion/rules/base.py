"""What a fusion rule is.

A rule of your own, in a plugin (see docs/fusion.md)::

    register_fusion_rules(FusionRule("tanh_apart", "keeps tanh out of epilogues", is_about, check))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from graphwright.fusion.benefit import (
    narrow_operands_stay,
    reduction_operands_stay,
    row_functions_stay_apart,
    rows_stay_in_cache,
)
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.decisions import Kind
from graphwright.ir.refusal import Refusal
from graphwright.passes.base import RulePass
from graphwright.records import dataclass

Pattern = Callable[[Candidate], bool]
"""Whether a rule is about a candidate. It may look at nodes and types; loops are not analysed yet."""
Check = Callable[[Candidate], Refusal | str | None]
"""Why a legal candidate is not to be merged; None where it may be."""
COMMON: Final[tuple[Check, ...]] = (
    narrow_operands_stay,
    reduction_operands_stay,
    rows_stay_in_cache,
    row_functions_stay_apart,
)
"""What each built-in rule demands of a merge to pay."""
NEIGHBOURS, ALL = 2, 3
"""Values of the option ``opt_level``: from the first on loops are merged with loops, from the second on with
library kernels."""

REPLACE, FUSE = "replace", "fuse"
"""Stages in which rules replace nodes: of the model's own ops, or of those that get kernels."""


def always(_candidate: Candidate) -> None:
    """The check of a rule that allows whatever it matches."""


@dataclass(frozen=True, eq=False)
class FusionRule:
    """Decides about the candidates that its ``pattern`` matches and that are legal: the first such rule does.

    The candidate is merged if neither ``check`` nor one of ``constraints`` gives a reason against it.
    ``name``: lower case, as users switch it. ``does``: one sentence. ``level``: the least ``opt_level``.
    """

    name: str
    does: str
    pattern: Pattern
    check: Check = always
    edit: Kind = Kind.MERGE
    constraints: tuple[Check, ...] = COMMON
    level: int = NEIGHBOURS

    def reasons_against(self, candidate: Candidate) -> Refusal | str | None:
        """Why ``candidate``, which is legal, is not to be merged."""
        for ask in (self.check, *self.constraints):
            if (reason := ask(candidate)) is not None:
                return reason
        return None


@dataclass(frozen=True, eq=False)
class KernelRule:
    """Changes how selected kernels run. What decides is not here, as it needs the kernels: ``schedule/``."""

    name: str
    does: str
    level: int = ALL
    edit: Kind = Kind.BAND


@dataclass(frozen=True, eq=False)
class ReplaceRule:
    """Recognises several nodes as one op that has a kernel of its own: its rewrites are ``rewrites``."""

    name: str
    does: str
    rewrites: RulePass
    stage: str = REPLACE
    """:data:`REPLACE` or :data:`FUSE`."""
    level: int = ALL
    edit: Kind = Kind.REPLACE
