"""Concatenations of large or many slices: the work of the pass is bounded by the number of operands."""

from __future__ import annotations

from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.types import F32, tensor
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.roll import Roll
from graphwright.ops.core.slice import TO_THE_END, Slice
from graphwright.passes.canonicalize_concats import CANONICALIZE_CONCATS
from graphwright.passes.manager import run_passes


def test_steps_may_be_as_large_as_an_axis() -> None:
    """A value has 10^12 such parts."""
    module, step = Module(), 10**6
    b, (x,) = new_main_graph(module, [("x", tensor(F32, step, step, 2))])
    parts = [b(Slice((k, 0), (TO_THE_END, TO_THE_END), (0, 1), (step, step)), x) for k in (0, 1)]
    b.graph.set_outputs([b(Concat(2), *parts)])
    run_passes(module, CANONICALIZE_CONCATS)
    assert isinstance(next(reversed(module.main)).op, Concat)


def test_slices_may_be_a_long_chain() -> None:
    module, length = Module(), 2000
    b, (x,) = new_main_graph(module, [("x", tensor(F32, length + 5))])
    value = x
    for _ in range(length):
        value = b(Slice((1,), (TO_THE_END,), (0,), (1,)), value)
    parts = [b(Slice((start,), (end,), (0,), (1,)), value) for start, end in ((2, TO_THE_END), (0, 2))]
    b.graph.set_outputs([b(Concat(0), *parts), value])
    run_passes(module, CANONICALIZE_CONCATS)
    assert [type(node.op) for node in module.main].count(Concat) == 1, "parts of x, but not all of it"
    assert not any(isinstance(node.op, Roll) for node in module.main)
