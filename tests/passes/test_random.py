"""Random modules with regions, symbols, state and effects: each pass alone, against the module as it was."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings

from graphwright.compiler.pipeline import graph_passes
from graphwright.ir.graph import Module
from graphwright.passes.algebraic import ALGEBRAIC
from graphwright.passes.base import Pass
from graphwright.passes.canonicalize_concats import CANONICALIZE_CONCATS
from graphwright.passes.canonicalize_gathers import CANONICALIZE_GATHERS
from graphwright.passes.canonicalize_loops import CanonicalizeLoops
from graphwright.passes.canonicalize_reshapes import CANONICALIZE_RESHAPES
from graphwright.passes.canonicalize_scatters import CANONICALIZE_SCATTERS
from graphwright.passes.canonicalize_transposes import CANONICALIZE_TRANSPOSES
from graphwright.passes.carried_values import CarriedValues
from graphwright.passes.constants_into_regions import ConstantsIntoRegions
from graphwright.passes.cse import CommonSubexpressions
from graphwright.passes.dead_branches import DeadBranches
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.decompose import Decompose
from graphwright.passes.fold_constants import FoldConstants
from graphwright.passes.fold_conv_bn import FOLD_CONV_BN
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.loop_invariants import LoopInvariants
from graphwright.passes.manager import Scheduled, run_passes
from graphwright.passes.remove_noops import RemoveNoops
from graphwright.passes.swap_operands import SWAP_OPERANDS

from .strategies import modules
from .support import Closeness, assert_same_meaning, copied

EXACT: tuple[Pass, ...] = (
    InferShapes(),
    FoldConstants(),
    CommonSubexpressions(),
    DeadCode(),
    DeadBranches(),
    ConstantsIntoRegions(),
    CarriedValues(),
    LoopInvariants(),
    CanonicalizeLoops(),
    RemoveNoops(),
    CANONICALIZE_TRANSPOSES,
    CANONICALIZE_CONCATS,
    CANONICALIZE_GATHERS,
    CANONICALIZE_SCATTERS,
    CANONICALIZE_RESHAPES,
)
ROUNDED: tuple[tuple[str, Sequence[Scheduled]], ...] = (
    ("algebraic", (ALGEBRAIC,)),
    ("swap_operands", (SWAP_OPERANDS,)),
    ("decompose", (Decompose(lambda node: False),)),
)

quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("each", EXACT, ids=lambda p: p.name)
def test_pass_keeps_every_bit(each: Pass) -> None:
    @quick
    @given(modules(products=False))
    def check(before: Module) -> None:
        after = copied(before)
        run_passes(after, each)
        assert_same_meaning(before, after, sizes=(3,), closeness=Closeness.BITS, special=True)
        assert after.signatures == before.signatures

    check()


@pytest.mark.parametrize(("name", "stages"), ROUNDED, ids=[name for name, _ in ROUNDED])
def test_pass_keeps_special_numbers(name: str, stages: Sequence[Scheduled]) -> None:
    """NaN, infinities and the signs of zeros are unchanged; finite numbers may be rounded differently."""

    @quick
    @given(modules(products=False))
    def check(before: Module) -> None:
        after = copied(before)
        run_passes(after, *stages)
        special = name == "algebraic"
        assert_same_meaning(before, after, sizes=(3,), closeness=Closeness.EACH, special=special)

    check()


@pytest.mark.parametrize("stages", [(FOLD_CONV_BN,), graph_passes()], ids=["fold_conv_bn", "pipeline"])
def test_passes_keep_the_meaning(stages: Sequence[Scheduled]) -> None:
    @quick
    @given(modules())
    def check(before: Module) -> None:
        after = copied(before)
        run_passes(after, *stages)
        assert_same_meaning(before, after, sizes=(2,), rtol=1e-3)

    check()


def test_pipeline_is_idempotent() -> None:
    @quick
    @given(modules())
    def check(module: Module) -> None:
        run_passes(module, *graph_passes())
        records = run_passes(module, *graph_passes())
        assert [str(record) for record in records if record.modified] == []

    check()
