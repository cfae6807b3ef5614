"""Proves that padding inputs with zeros at the end does not change the results of a model.

The proof goes node by node over a model with symbolic sizes. Invariant: of every value, the leading elements
along each padded axis, as many as the actual size, are correct, whatever follows them. An axis is padded if
its size depends on one that differs between gears. A node without a rule is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from graphwright.errors import Collector, Diagnostic, ModelError
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.clone import clone_module
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.interfaces.padding import Padded, PaddingRule, broadcast_leak
from graphwright.ir.op import Trait, reduction_op
from graphwright.ir.op.region_op import LoopOp
from graphwright.ir.symbols import Dim, names_in
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.decompose import Decompose
from graphwright.passes.fixpoints import SHAPES
from graphwright.passes.manager import PassManager

_HINT = "use between='error' or 'dynamic' (--between)"
SHOWN = 20
"""Nodes that an error lists."""


def refuse_padding(module: Module, gears: Sequence[Module]) -> None:
    """Raises ModelError with the nodes whose results may change if the inputs of ``module`` are padded to
    those of one of ``gears``.
    """
    unknown = [value.name for value in module.main.inputs if value.type.shape is None]
    if unknown:
        message = f"padding needs the rank of input {unknown[0]!r}, which is not known"
        raise ModelError(Diagnostic("padding", message, hint=_HINT))
    trial = clone_module(module)
    padded = Padded(varied_sizes(module, gears), trial.main)
    PassManager((SHAPES, DeadCode(), Decompose(_has_padding_rule), SHAPES, DeadCode())).run(trial)
    faults = Collector(ModelError)
    known = symbols_in(value.type for value in trial.main.inputs)
    for node in trial.main:
        reason = _reason(node, padded, known)
        if reason and len(faults.diagnostics) < SHOWN:
            faults.add(
                "padding", f"{node.op.name}: {reason}: padding could change the result", node.location, _HINT
            )
    faults.raise_if_any()


def varied_sizes(module: Module, gears: Sequence[Module]) -> frozenset[str]:
    """The symbols in input axes whose size differs between gears."""
    shapes = zip(*([v.type.dims for v in gear.main.inputs] for gear in gears), strict=True)
    return frozenset(
        name
        for value, sizes in zip(module.main.inputs, shapes, strict=True)
        for dim, held in zip(value.type.dims, zip(*sizes, strict=True), strict=True)
        if len(set(held)) > 1
        for name in names_in(dim)
    )


def _has_padding_rule(node: Node) -> bool:
    by_trait = bool(node.op.traits & (Trait.ELEMENTWISE | Trait.VIEW | Trait.REDUCTION))
    return by_trait or isinstance(node.op, Constant | PaddingRule)


def _reason(node: Node, padded: Padded, known: set[str]) -> str:
    """Why padded operands may change the result of ``node``; empty if they cannot."""
    if node.is_constant:
        return ""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    if any(value.type.shape is None for value in values):
        return "a rank is not known"
    names = symbols_in(value.type for value in values)
    if not any(map(padded.axes, values)) and not padded.decides(node.op):
        known |= names  # sizes computed from correct elements are correct
        return ""
    if names - known:
        return f"the size {min(names - known)} is data-dependent"
    return _leak(node, padded) or _region_leak(node, padded, known)


def _leak(node: Node, padded: Padded) -> str:
    """The reason according to the rule of the op, or else to that of its trait."""
    if isinstance(node.op, PaddingRule):
        return node.op.padding_leak(node, padded)
    if Trait.ELEMENTWISE in node.op.traits:
        operands = (value.type.dims for value in node.inputs if value is not None)
        return broadcast_leak(operands, node.output.type.dims, padded)
    if Trait.VIEW in node.op.traits:
        return _view(node, padded)
    if Trait.REDUCTION in node.op.traits:
        folded = reduction_op(node.op).resolved(len(node.operand(0).type.dims))
        return "it reduces over a padded axis" if padded.among(node.operand(0), folded) else ""
    return f"there is no padding rule for {'its body' if node.regions else 'this op'}"


def _region_leak(node: Node, padded: Padded, known: set[str]) -> str:
    """The first reason among the nodes of the regions."""
    what = "the body" if isinstance(node.op, LoopOp) else "a branch"
    inner = ((each, _reason(each, padded, known)) for region in node.regions for each in region)
    return next((f"{each.op.name} in {what}: {reason}" for each, reason in inner if reason), "")


def _view(node: Node, padded: Padded) -> str:
    """A view splits and merges axes in groups; a padded axis must be the outermost of its group on both
    sides.
    """
    for group in _groups(list(node.operand(0).type.dims), list(node.output.type.dims)):
        for dims in group:
            outer, *inner = [dim for dim in dims if dim != 1] or [1]
            if any(map(padded.holds, inner)) or padded.holds(outer) != any(map(padded.holds, group[0])):
                return f"it reshapes a padded axis: {_dims(node.operand(0))} to {_dims(node.output)}"
    return ""


def _groups(left: list[Dim], right: list[Dim]) -> Iterator[tuple[list[Dim], list[Dim]]]:
    """The shortest runs of axes on both sides that have the same number of elements."""
    while left and right:
        cuts = [(i, j) for i in range(1, len(left) + 1) for j in range(1, len(right) + 1)]
        fitting = [(i, j) for i, j in cuts if prod(left[:i]) == prod(right[:j])]
        i, j = min(fitting, key=sum, default=(len(left), len(right)))
        yield left[:i], right[:j]
        left, right = left[i:], right[j:]
    if left or right:
        yield left, right


def _dims(value: Value) -> str:
    return f"[{', '.join(map(str, value.type.dims))}]"
