"""Sets of passes that run to a fixpoint."""

from __future__ import annotations

from graphwright.passes.algebraic import ALGEBRAIC
from graphwright.passes.canonicalize_concats import CANONICALIZE_CONCATS
from graphwright.passes.canonicalize_gathers import CANONICALIZE_GATHERS
from graphwright.passes.canonicalize_loops import CanonicalizeLoops
from graphwright.passes.canonicalize_reshapes import CANONICALIZE_RESHAPES
from graphwright.passes.canonicalize_scatters import CANONICALIZE_SCATTERS
from graphwright.passes.canonicalize_sequences import CANONICALIZE_SEQUENCES
from graphwright.passes.canonicalize_transposes import CANONICALIZE_TRANSPOSES
from graphwright.passes.carried_values import CarriedValues
from graphwright.passes.constants_into_regions import ConstantsIntoRegions
from graphwright.passes.cse import CommonSubexpressions
from graphwright.passes.dead_branches import DeadBranches
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.fold_constants import FoldConstants
from graphwright.passes.fold_conv_bn import FOLD_CONV_BN
from graphwright.passes.loop_invariants import LoopInvariants
from graphwright.passes.manager import Fixpoint
from graphwright.passes.merge_conv_branches import MERGE_CONV_BRANCHES
from graphwright.passes.remove_noops import RemoveNoops
from graphwright.passes.swap_operands import SWAP_OPERANDS
from graphwright.passes.tail_duplication import TailDuplication
from graphwright.passes.translate import TRANSLATE

SHAPES = Fixpoint(
    "shapes and constants",
    (
        FoldConstants(),
        TRANSLATE,
        DeadBranches(),
        CanonicalizeLoops(),
        CANONICALIZE_SEQUENCES,
        TailDuplication(),
    ),
)
"""One traversal infers types and folds constants. Then nodes that waited for ranks are translated. Branches
and loops with constant conditions are inlined. Sequences that are only taken apart again are removed. Nodes
after branches of different rank are duplicated into these branches.
"""

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
        MERGE_CONV_BRANCHES,
        ALGEBRAIC,
        CANONICALIZE_TRANSPOSES,
        SWAP_OPERANDS,
        CANONICALIZE_CONCATS,
        CANONICALIZE_GATHERS,
        CANONICALIZE_SCATTERS,
        CANONICALIZE_RESHAPES,
        FoldConstants(),
    ),
)
