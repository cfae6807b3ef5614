"""Assumptions of an exported program about sizes of its arguments, on which Python code branched."""

from __future__ import annotations

from collections.abc import Iterator, Set
from traceback import FrameSummary

import sympy
from torch import fx
from torch._guards import ShapeGuard
from torch._subclasses import FakeTensor
from torch.utils._sympy import functions as torch_sympy

from graphwright.frontends.torch.types import Unsupported, dim_from_expression
from graphwright.ir.symbols import Dim, names_in


def assumed_sizes(graph: fx.Graph, names: Set[str]) -> Iterator[tuple[str, Dim, Dim]]:
    """Relations (``==`` or ``<=``) between the symbols ``names`` that must hold, as in
    ``if x.shape[0] % 2 == 0``.

    Bounds of single sizes are in the ranges of the program. Inequalities are no relations, except those of a
    remainder; nor are comparisons with numbers, as PyTorch assumes that sizes are not 0 or 1. Remainders with
    which PyTorch chooses a way to reshape are none either: each way gives the same elements.
    """
    fakes = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
    tensors = [each for each in fakes if isinstance(each, FakeTensor)]
    env = next((each.fake_mode.shape_env for each in tensors if each.fake_mode.shape_env), None)
    if env is None:
        return
    equal = [sympy.Eq(each, env.replace(each), evaluate=False) for each in env.replacements]
    relations = [env.replace(guard.expr) for guard in env.guards if not _chooses_view(guard)]
    for each in (*equal, *relations):
        relation = _relation(each)
        if relation is not None and names_in(*relation[1:]) <= names:
            yield relation


def _chooses_view(guard: ShapeGuard) -> bool:
    """Whether ``guard`` is a remainder that PyTorch's search for a view tested."""
    frame = guard.sloc.framework_loc
    is_search = isinstance(frame, FrameSummary) and frame.name.startswith("_reshape_view_helper")
    return is_search and isinstance(guard.expr, sympy.Ne)


def _relation(relation: sympy.Basic) -> tuple[str, Dim, Dim] | None:
    try:
        match relation:
            case sympy.Eq(args=(a, b)):
                return "==", dim_from_expression(a), dim_from_expression(b)
            case sympy.Ne(
                args=((torch_sympy.Mod() | torch_sympy.PythonMod()) as rest, sympy.Integer() as zero)
            ) if zero == 0:
                return "<=", 1, dim_from_expression(rest)
            case sympy.Le() | sympy.Lt() | sympy.Ge() | sympy.Gt():
                return _ordered(relation)
    except Unsupported:
        pass
    return None


def _ordered(relation: sympy.Rel) -> tuple[str, Dim, Dim] | None:
    least, most = relation.lts, relation.gts
    if not (least.free_symbols and most.free_symbols):
        return None
    strict = int(isinstance(relation, sympy.Lt | sympy.Gt))
    return "<=", dim_from_expression(least) + strict, dim_from_expression(most)
