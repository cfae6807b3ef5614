"""Passes that are run in turn until none of them has more to do."""

from __future__ import annotations

from graphwright.passes.algebraic import ALGEBRAIC
from graphwright.passes.carried_values import CarriedValues
from graphwright.passes.constants_into_regions import ConstantsIntoRegions
from graphwright.passes.cse import CommonSubexpressions
from graphwright.passes.dead_branches import DeadBranches
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.fold_constants import FoldConstants
from graphwright.passes.fold_conv_bn import FOLD_CONV_BN
from graphwright.passes.loop_invariants import LoopInvariants
from graphwright.passes.manager import Fixpoint
from graphwright.passes.remove_noops import RemoveNoops
from graphwright.passes.simplify_loops import SimplifyLoops
from graphwright.passes.simplify_reshapes import SIMPLIFY_RESHAPES
from graphwright.passes.simplify_sequences import SIMPLIFY_SEQUENCES
from graphwright.passes.simplify_transposes import SIMPLIFY_TRANSPOSES
from graphwright.passes.sink_tails import SinkTails

SHAPES = Fixpoint(
    "shapes and constants",
    (FoldConstants(), DeadBranches(), SimplifyLoops(), SIMPLIFY_SEQUENCES, SinkTails()),
)
"""One walk infers types and folds what they decide; branches and loops that constants decide are inlined,
sequences that are taken apart again are not built, and what follows branches of different rank moves into
them."""

SIMPLIFY = Fixpoint(
    "simplify",
    (
        CommonSubexpressions(),
        DeadCode(),
        ConstantsIntoRegions(),
        CarriedValues(),
        LoopInvariants(),
        RemoveNoops(),
        FOLD_CONV_BN,
        ALGEBRAIC,
        SIMPLIFY_TRANSPOSES,
        SIMPLIFY_RESHAPES,
        FoldConstants(),
    ),
)
