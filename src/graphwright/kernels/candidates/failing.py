"""Branches that cannot run."""

from __future__ import annotations

from graphwright.ir.fail import Fail
from graphwright.ir.graph import Node
from graphwright.kernels.candidates.registry import Context, candidate
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.library.fail import SYMBOL
from graphwright.kernels.ref import KernelRef


@candidate(Fail)
def fail(node: Node, context: Context) -> Run:
    writes = tuple(range(len(node.outputs)))
    return Run((Launch(KernelRef(SYMBOL), node.outputs, writes, (), grid=1),))
