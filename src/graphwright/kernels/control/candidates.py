"""Kernels for branches that can never run, or only for some sizes."""

from __future__ import annotations

from graphwright.ir.builtin.fail import Fail
from graphwright.ir.builtin.require import Require
from graphwright.ir.graph import Node
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.control.fail import FAIL, REQUIRE_AT_MOST, REQUIRE_EQUAL
from graphwright.kernels.launch import Launch
from graphwright.kernels.ref import KernelRef


@candidate(Fail)
def fail(node: Node, context: Context) -> Launch:
    """Ends the run with the node's error."""
    writes = tuple(range(len(node.outputs)))
    return Launch(KernelRef(FAIL), node.outputs, writes, (), grid=1)


@candidate(Require)
def require(node: Node[Require], context: Context) -> Launch:
    """Ends the run unless sizes are equal, or one is at most the other."""
    op = node.op
    symbol = REQUIRE_EQUAL if op.relation == "==" else REQUIRE_AT_MOST
    return Launch(KernelRef(symbol), (), (), (op.left, op.right), grid=1)
