"""Which results of a step may be written over its operands."""

from __future__ import annotations

import pytest

from graphwright.ir.graph import Value
from graphwright.ir.types import F32, TensorType
from graphwright.kernels.launch import Copy, Launch, Run
from graphwright.kernels.ref import KernelRef
from graphwright.memory.views import run_overwrites

OLD, VIEW, NEW, OTHER = (Value(TensorType(F32, (4,)), name) for name in ("old", "view", "new", "other"))


def launch(*operands: Value, in_place: bool = False) -> Launch:
    """A launch that writes its last operand; with ``in_place``, this may share the memory of the first
    one.
    """
    pairs = ((operands[-1], operands[0]),) if in_place else ()
    return Launch(KernelRef("kernel"), operands, (len(operands) - 1,), (), 1, in_place=pairs)


RUNS: dict[str, tuple[bool, tuple[Launch | Copy, ...]]] = {
    "in place": (True, (launch(OLD, OTHER, NEW, in_place=True),)),
    "a view in place": (True, (launch(VIEW, NEW, in_place=True),)),
    "a copy": (True, (Copy(OLD, NEW),)),
    "a copy to a part": (False, (Copy(OLD, NEW, 4),)),
    "out of place": (False, (launch(OLD, NEW),)),
    "read twice": (False, (launch(OLD, OLD, NEW, in_place=True),)),
    "read as a view, too": (False, (launch(OLD, VIEW, NEW, in_place=True),)),
    "read before it is written": (True, (launch(OLD, OTHER), launch(OTHER, NEW))),
    "read before it is written in place": (
        True,
        (launch(OLD, OTHER), launch(OLD, OTHER, NEW, in_place=True)),
    ),
    "read after it is written": (False, (launch(OLD, NEW, in_place=True), launch(OLD, OTHER))),
    "one of two launches in place": (False, (launch(OLD, NEW, in_place=True), launch(OLD, OTHER, NEW))),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_result_may_overwrite_an_operand_that_is_no_longer_needed(name: str) -> None:
    allowed, launches = RUNS[name]
    assert run_overwrites((OLD, VIEW), NEW, Run(launches)) == allowed
