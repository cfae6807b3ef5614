"""Asks one candidate for the kernels of one node."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.op.plugin_ops import is_plugin_op, plugin_of
from graphwright.kernels.candidates.checks import checked_candidate
from graphwright.kernels.candidates.context import (
    Candidate,
    CandidateResult,
    Context,
    Unsupported,
    without_library,
)
from graphwright.kernels.kernel_choice import NotTaken
from graphwright.kernels.launch import Alias, Copy, Launch, Run


def attempt(
    candidate: Candidate, node: Node, context: Context
) -> tuple[Run | Alias | str, tuple[NotTaken, ...]]:
    """The result of ``candidate`` for ``node``, with the launches that prepare its operands first; and the
    alternatives that it considered.
    """
    own = context.inner(node, plugin_of(candidate) if is_plugin_op(candidate) else "")
    found = _result(candidate, node, own)
    if isinstance(found, Run) and own.temporaries:
        launches = (*own.prepared, *found.launches)
        found = Run(launches, temporaries=(*own.temporaries, *found.temporaries))
    if isinstance(found, Run) and not context.target.library and any(map(_is_of_library, found.launches)):
        found = without_library(context.target)
    return found, tuple(own.weighed)


def _result(candidate: Candidate, node: Node, own: Context) -> Run | Alias | str:
    if not is_plugin_op(candidate):
        found = _asked(candidate, node, own)
        return Run((found,)) if isinstance(found, Launch) else found
    if not own.target.library:
        return f"C code of plugins cannot run on {own.target.name}"
    return checked_candidate(
        lambda: _asked(candidate, node, own), candidate, node, own.temporaries, own.target.machine
    )


def _asked(candidate: Candidate, node: Node, own: Context) -> CandidateResult:
    """What ``candidate`` returns; a request that the context rejects counts as a reason."""
    try:
        return candidate(node, own)
    except Unsupported as reason:
        return str(reason)


def _is_of_library(launch: Launch | Copy) -> bool:
    return isinstance(launch, Launch) and not launch.kernel.module
