"""The classes of fusion rules.

A plugin registers a rule of its own like this (see docs/fusion.md)::

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
from graphwright.passes.rule_pass import RulePass
from graphwright.records import dataclass

Pattern = Callable[[Candidate], bool]
"""Whether a rule applies to a candidate. It may use nodes and types; loops are not analyzed yet."""
Check = Callable[[Candidate], Refusal | str | None]
"""Why a legal candidate should not be merged; None if the rule allows the merge."""
COMMON: Final[tuple[Check, ...]] = (
    narrow_operands_stay,
    reduction_operands_stay,
    rows_stay_in_cache,
    row_functions_stay_apart,
)
"""The constraints that all built-in rules have."""
LOOP_FUSION, ALL = 2, 3
"""Values of the option ``opt_level``: from ``LOOP_FUSION`` on, loops are merged with loops, and from ``ALL``
on also with library kernels.
"""

REPLACE, FUSE = "replace", "fuse"
"""Stages in which rules replace nodes: before decomposition, or after it."""


def always(_candidate: Candidate) -> None:
    """The check of a rule that allows every candidate that it matches."""


@dataclass(frozen=True, eq=False)
class FusionRule:
    """Decides about legal candidates that its ``pattern`` matches; of several such rules, the first one
    decides.

    It merges the candidate unless ``check`` or one of ``constraints`` returns a reason not to. ``name`` is
    the name in options, in lower case; ``does`` a description in one sentence; ``level`` the least
    ``opt_level``.
    """

    name: str
    does: str
    pattern: Pattern
    check: Check = always
    edit: Kind = Kind.MERGE
    constraints: tuple[Check, ...] = COMMON
    level: int = LOOP_FUSION

    def reasons_against(self, candidate: Candidate) -> Refusal | str | None:
        """Why ``candidate``, which is legal, should not be merged."""
        for ask in (self.check, *self.constraints):
            if (reason := ask(candidate)) is not None:
                return reason
        return None


@dataclass(frozen=True, eq=False)
class KernelRule:
    """A rule that changes how selected kernels run; ``kernels/bands`` decides, as this needs the kernels."""

    name: str
    does: str
    level: int = ALL
    edit: Kind = Kind.BAND


@dataclass(frozen=True, eq=False)
class ReplaceRule:
    """A rule whose passes ``rewrites`` replace several nodes by one op that has a kernel of its own."""

    name: str
    does: str
    rewrites: RulePass
    stage: str = REPLACE
    """:data:`REPLACE` or :data:`FUSE`."""
    level: int = ALL
    edit: Kind = Kind.REPLACE
