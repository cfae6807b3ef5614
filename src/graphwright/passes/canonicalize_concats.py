"""Turns concatenations of all parts of one value into a Roll or a Transpose, which fused loads can absorb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.moved_axes import AxisSlice
from graphwright.ir.match import Match, P, Rest, Rule, always
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.roll import Roll
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.passes.rule_pass import RulePass
from graphwright.records import dataclass

JOINED = P(Concat, Rest())


@dataclass(frozen=True)
class _Part:
    """The part of ``whole`` that a chain of slices takes: each of its axes in terms of those of ``whole``."""

    whole: Value
    along: tuple[AxisSlice, ...]


def _part(value: Value) -> _Part | None:
    """``value`` as a slice of its origin; None if a bound is not known."""
    if value.type.rank is None:
        return None
    along = tuple(map(AxisSlice, range(value.type.rank)))
    while (node := value.producer) is not None and isinstance(node.op, Slice):
        cut = node.op.moved_axes(node)
        if isinstance(cut, str):
            return None
        along = tuple(
            AxisSlice(c.axis, c.start + c.step * a.start, c.step * a.step)
            for c, a in zip(cut, along, strict=True)
        )
        value = node.operand(0)
    return _Part(value, along)


def _parts(node: Node) -> list[_Part] | str:
    """The operands as slices of one common value; or why they are not."""
    found = [None if value is None else _part(value) for value in node.inputs]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found) or len(parts) < 2:
        return "an operand is not a slice with known bounds"
    if any(part.whole is not parts[0].whole for part in parts):
        return "the operands are slices of different values"
    return parts


# ---- rolls


def _rolled(b: Builder, m: Match) -> Value | str:
    """The Roll, if the operands are the end of a value and its beginning."""
    parts = _parts(m.root)
    if isinstance(parts, str):
        return parts
    axis, whole = _axis(m.root), parts[0].whole
    if len(parts) != 2 or any(a.step != 1 for part in parts for a in part.along):
        return "there are more than two slices, or they have steps"
    last, first = (part.along[axis].start for part in parts)
    sizes = [m.root.operand(k).type.dims for k in (0, 1)]
    others = [d for k, d in enumerate(whole.type.dims) if k != axis]
    if any([d for k, d in enumerate(size) if k != axis] != others for size in sizes):
        return "another axis is sliced too"
    head, tail = sizes[1][axis], sizes[0][axis]
    if not (0 == first != last == head and tail != 0 and head + tail == whole.type.dims[axis]):
        return "the operands are not the end of an axis and its beginning"
    rolled: Value = b(Roll(axis, last), whole)
    return rolled


def _axis(node: Node[Any]) -> int:
    axis: int = node.op.axis
    return axis % len(node.output.type.dims)


# ---- strided slices


def _order(node: Node) -> tuple[Value, list[tuple[int, int]]] | str:
    """The value of which all operands are slices with steps, and its sliced axes with their steps, the
    fastest varying axis last; or the reason why there is no such value.
    """
    parts = _parts(node)
    if isinstance(parts, str):
        return parts
    whole = parts[0].whole
    cut = [k for k in range(len(whole.type.dims)) if any(not part.along[k].is_identity for part in parts)]
    steps = {k: parts[0].along[k].step for k in cut}
    refusal = _refusal_of_steps(node, parts, steps)
    if refusal is not None:
        return refusal
    starts = [tuple(part.along[k].start for k in cut) for part in parts]
    order = sorted(range(len(cut)), key=lambda n: _first_change(starts, n))[::-1]
    wanted = [
        tuple(row[order.index(n)] for n in range(len(cut)))
        for row in product(*(range(steps[cut[n]]) for n in order))
    ]
    if starts != wanted:
        return "the operands are not all such slices in order"
    return whole, [(cut[n], steps[cut[n]]) for n in order]


def _refusal_of_steps(node: Node, parts: Sequence[_Part], steps: Mapping[int, int]) -> str | None:
    """Why ``parts`` are not slices of one shape with the same ``steps`` by axis; None if they are."""
    dims = parts[0].whole.type.dims
    if _axis(node) in steps or any(part.along[k].step != step for part in parts for k, step in steps.items()):
        return "the operands are not slices with equal steps along other axes"
    if not all(isinstance(d := dims[k], int) and step > 0 and d % step == 0 for k, step in steps.items()):
        return "sizes are not multiples of the steps"
    shape = [d // steps.get(k, 1) for k, d in enumerate(dims)]
    if any(value is not None and list(value.type.dims) != shape for value in node.inputs):
        return "the operands have different shapes"
    if len(parts) != prod(steps.values()):  # steps may be too large to list all starts
        return "the operands are not all such slices in order"
    return None


def _first_change(starts: list[tuple[int, ...]], axis: int) -> int:
    """The first operand whose start along ``axis`` differs."""
    return next((k for k, start in enumerate(starts) if start[axis] != starts[0][axis]), len(starts))


def _transposed(b: Builder, m: Match) -> Value | str:
    found = _order(m.root)
    if isinstance(found, str):
        return found
    whole, order = found
    steps, axis = dict(order), _axis(m.root)
    split: list[Any] = []
    kept: list[int] = []
    inner: dict[int, int] = {}
    for k, dim in enumerate(whole.type.dims):
        kept.append(len(split))
        split.append(dim // steps[k] if k in steps else dim)
        if k in steps:
            inner[k] = len(split)
            split.append(steps[k])
    perm = [*kept[:axis], *(inner[k] for k, _ in order), *kept[axis:]]
    transposed: Value = b(Transpose(tuple(perm)), reshaped(b, whole, tuple(split)))
    return reshaped(b, transposed, m.root.output.type.dims)


CANONICALIZE_CONCATS = RulePass(
    "canonicalize_concats",
    (
        Rule("Concat of end and beginning", JOINED, always, _rolled),
        Rule("Concat of strided slices", JOINED, always, _transposed),
    ),
)
"""The pass."""
