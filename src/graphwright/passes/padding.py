"""Whether results stay what they are where inputs are filled up with zeros behind their elements.

Proved node by node for a model of symbolic sizes: where the first elements of every operand along each padded
axis (as many as the operand truly has) are right, so are those of each result, whatever lies behind them. An
axis is padded if its size depends on a size that gears vary. What no rule proves is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch
from math import prod

from graphwright.errors import Collector, Diagnostic, ModelError
from graphwright.ir.clone import clone_module
from graphwright.ir.constant import Constant
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Op, Trait, folding
from graphwright.ir.symbols import Dim, Expr, names_in
from graphwright.ops.control.case import Case
from graphwright.ops.control.if_ import If
from graphwright.ops.control.loop import Loop
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.cumulative import Cumulative
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.range import Range
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.split import Split
from graphwright.ops.core.top_k import TopK
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.lp_pool import LpPool
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.recurrent import Recurrent
from graphwright.ops.nn.resize import Resize
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.decompose import Decompose
from graphwright.passes.fixpoints import SHAPES
from graphwright.passes.manager import PassManager
from graphwright.records import dataclass

_HINT = "use --between error or dynamic"
SHOWN = 20
"""Nodes that an error names."""


def refuse_padding(module: Module, gears: Sequence[Module]) -> None:
    """A ModelError with the nodes that could make something else of inputs of ``module`` that are filled up
    to those of one of ``gears``.
    """
    unknown = [value.name for value in module.main.inputs if value.type.shape is None]
    if unknown:
        message = f"the rank of input {unknown[0]!r} is not known, and padding has to know it"
        raise ModelError(Diagnostic("padding", message, hint=_HINT))
    trial = clone_module(module)
    padded = Padded(varied_sizes(module, gears), trial.main)
    PassManager((SHAPES, DeadCode(), Decompose(_has_rule), SHAPES, DeadCode())).run(trial)
    faults = Collector(ModelError)
    known = symbols_in(value.type for value in trial.main.inputs)
    for node in trial.main:
        reason = _reason(node, padded, known)
        if reason and len(faults.diagnostics) < SHOWN:
            faults.add(
                "padding", f"{node.op.name}: {reason}: padding could change the result", node.place, _HINT
            )
    faults.raise_if_any()


def varied_sizes(module: Module, gears: Sequence[Module]) -> frozenset[str]:
    """The symbols in axes of inputs that have not the same size in all gears."""
    shapes = zip(*([v.type.dims for v in gear.main.inputs] for gear in gears), strict=True)
    return frozenset(
        name
        for value, sizes in zip(module.main.inputs, shapes, strict=True)
        for dim, held in zip(value.type.dims, zip(*sizes, strict=True), strict=True)
        if len(set(held)) > 1
        for name in names_in(dim)
    )


@dataclass(frozen=True)
class Padded:
    """Which axes are padded: those whose size holds one of ``symbols``; ``main`` takes what is filled up."""

    symbols: frozenset[str]
    main: Graph

    def holds(self, dim: object) -> bool:
        """Whether a size differs between the gear and the truth."""
        return isinstance(dim, Expr) and not self.symbols.isdisjoint(names_in(dim))

    def axes(self, value: Value | None) -> set[int]:
        """Of a value of known rank."""
        return set() if value is None else {k for k, dim in enumerate(value.type.dims) if self.holds(dim)}

    def among(self, value: Value, axes: Sequence[int]) -> bool:
        """Whether one of ``axes``, counted from either end, is padded."""
        rank = len(value.type.dims)
        return any(axis % max(rank, 1) in self.axes(value) for axis in axes)


def _has_rule(node: Node) -> bool:
    traits = node.op.traits
    return (
        isinstance(node.op, Constant)
        or bool(traits & (Trait.ELEMENTWISE | Trait.VIEW | Trait.REDUCTION))
        or _rule.dispatch(type(node.op)) is not _rule.dispatch(Op)
    )


def _reason(node: Node, padded: Padded, known: set[str]) -> str:
    """Why ``node`` may make something else of padded operands; empty if it may not."""
    if isinstance(node.op, Constant):
        return ""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    if any(value.type.shape is None for value in values):
        return "a rank is not known"
    names = symbols_in(value.type for value in values)
    touched = any(padded.axes(value) for value in values)
    if not touched and not any(map(padded.holds, _attributes(node.op))):
        known |= names  # sizes that true elements decide are the true ones
        return ""
    if names - known:
        return f"the size {min(names - known)} depends on the values of a tensor"
    if node.regions:
        return _regions(node, padded, known)
    if Trait.ELEMENTWISE in node.op.traits:
        return _elementwise(node, padded)
    if Trait.VIEW in node.op.traits:
        return _view(node, padded)
    if Trait.REDUCTION in node.op.traits:
        folded = folding(node.op).resolved(len(node.operand(0).type.dims))
        return "it reduces over a padded axis" if padded.among(node.operand(0), folded) else ""
    return _rule(node.op, node, padded)


def _regions(node: Node, padded: Padded, known: set[str]) -> str:
    """Regions run on the operands, which one and how often is the same: each has to keep what is true."""
    if isinstance(node.op, Loop):
        reason = _repeated(node, node.op, padded)
    elif not isinstance(node.op, If | Case):
        reason = "there is no rule for its body"
    else:
        reason = "its condition is padded" if padded.axes(node.operand(0)) else ""
    if reason:
        return reason
    what = "the body" if isinstance(node.op, Loop) else "a branch"
    inner = ((each, _reason(each, padded, known)) for region in node.regions for each in region)
    return next((f"{each.op.name} in {what}: {reason}" for each, reason in inner if reason), "")


def _repeated(node: Node, loop: Loop, padded: Padded) -> str:
    """What is true of a carried value stays so from run to run where its type does."""
    where, body = loop.loop_carried(), node.regions[0]
    if any(map(padded.holds, _attributes(loop))) or any(map(padded.axes, node.inputs[: where.start])):
        return "its number of iterations depends on padded sizes"
    for k in range(loop.carries):
        start, inside = node.operand(where.start + k), body.inputs[where.receive + k]
        if padded.axes(start) and not start.type == inside.type == body.outputs[where.result + k].type:
            return "a padded value changes its size between iterations"
    return ""


def _attributes(op: Op) -> Iterator[object]:
    for value in op.attributes().values():
        yield from value if isinstance(value, tuple) else (value,)


@singledispatch
def _rule(op: Op, node: Node, padded: Padded) -> str:
    """Why ``node``, of an op of this class, may make something else of padded operands."""
    return "there is no rule for padded operands of this op"


def _elementwise(node: Node, padded: Padded) -> str:
    """Each operand has the result's size along padded axes, or 1: else another element could be read."""
    out = node.output.type.dims
    for value in node.inputs:
        dims = () if value is None else value.type.dims
        for dim, size in zip(reversed(dims), reversed(out), strict=False):
            if dim != size and dim != 1 and (padded.holds(dim) or padded.holds(size)):
                return f"sizes {dim} and {size}, which need not differ from 1 together"
    return ""


def _view(node: Node, padded: Padded) -> str:
    """Axes are split and merged in groups; a padded axis must be the outermost of its group on both sides."""
    for group in _groups(list(node.operand(0).type.dims), list(node.output.type.dims)):
        for dims in group:
            outer, *inner = [dim for dim in dims if dim != 1] or [1]
            if any(map(padded.holds, inner)) or padded.holds(outer) != any(map(padded.holds, group[0])):
                return f"{_dims(node.operand(0))} becomes {_dims(node.output)}"
    return ""


def _groups(left: list[Dim], right: list[Dim]) -> Iterator[tuple[list[Dim], list[Dim]]]:
    """Runs of axes on both sides of as many elements, as short as they can be."""
    while left and right:
        cuts = [(i, j) for i in range(1, len(left) + 1) for j in range(1, len(right) + 1)]
        fitting = [(i, j) for i, j in cuts if prod(left[:i]) == prod(right[:j])]
        i, j = min(fitting, key=sum, default=(len(left), len(right)))
        yield left[:i], right[:j]
        left, right = left[i:], right[j:]
    if left or right:
        yield left, right


@_rule.register(Cast)
@_rule.register(Transpose)
@_rule.register(ConstantOfShape)
def _anywhere(op: Op, node: Node, padded: Padded) -> str:
    """Each element goes where its indices say, or is the same everywhere."""
    return ""


@_rule.register
def _expand(op: Expand, node: Node, padded: Padded) -> str:
    return _elementwise(node, padded)


@_rule.register
def _range(op: Range, node: Node, padded: Padded) -> str:
    start, _, step = op.bounds or ("", "", "")
    return "its start or step is a padded size" if padded.holds(start) or padded.holds(step) else ""


@_rule.register
def _concat(op: Concat, node: Node, padded: Padded) -> str:
    early = node.inputs[:-1]
    if any(value is not None and padded.among(value, [op.axis]) for value in early):
        return "elements after a padded operand change their positions"
    return ""


@_rule.register
def _split(op: Split, node: Node, padded: Padded) -> str:
    return "it splits a padded axis" if padded.among(node.operand(0), [op.axis]) else ""


@_rule.register
def _slice(op: Slice, node: Node, padded: Padded) -> str:
    for start, axis, step in zip(op.starts or (), op.axes, op.steps, strict=True):
        from_front = isinstance(start, int) and start >= 0 and step > 0
        if padded.among(node.operand(0), [axis]) and not from_front:
            return "it counts from the end of a padded axis"
        if padded.holds(start):
            return "it starts at a padded size"
    return ""


@_rule.register
def _gather(op: Gather, node: Node, padded: Padded) -> str:
    data, indices = node.operand(0), node.operand(1)
    if padded.among(data, [op.axis]):
        return "its indices may count from the end of a padded axis"
    known = not padded.axes(indices) or _is_fed(indices, padded.main)
    return "" if known else "its indices in the padding may have any value"


def _is_fed(value: Value, main: Graph) -> bool:
    """Whether a value is an input of ``main`` in another shape or dtype: zeros lie behind its elements."""
    while value.producer is not None:
        op = value.producer.op
        if not isinstance(op, Cast | Transpose) and Trait.VIEW not in op.traits:
            return False
        value = value.producer.operand(0)
    return value.owner is main


@_rule.register
def _matmul(op: MatMul, node: Node, padded: Padded) -> str:
    a, b = node.operand(0), node.operand(1)
    if padded.among(a, [-1]) or padded.among(b, [-2 if len(b.type.dims) > 1 else -1]):
        return "it sums along a padded axis"
    batch = node.output.type.dims[: max(len(a.type.dims), len(b.type.dims)) - 2]
    for dims in (a.type.dims[:-2], b.type.dims[:-2]):
        for dim, size in zip(reversed(dims), reversed(batch), strict=False):
            if dim != size and dim != 1 and padded.holds(size):
                return f"sizes {dim} and {size}, which need not differ from 1 together"
    return ""


@_rule.register
def _gemm(op: Gemm, node: Node, padded: Padded) -> str:
    a, b = node.operand(0), node.operand(1)
    if padded.among(a, [0 if op.trans_a else 1]) or padded.among(b, [1 if op.trans_b else 0]):
        return "it sums along a padded axis"
    c = node.inputs[2] if len(node.inputs) > 2 else None
    for dim, size in zip(reversed(c.type.dims if c else ()), reversed(node.output.type.dims), strict=False):
        if dim != size and dim != 1 and padded.holds(size):
            return f"sizes {dim} and {size}, which need not differ from 1 together"
    return ""


@_rule.register
def _conv(op: Conv, node: Node, padded: Padded) -> str:
    if any(padded.axes(value) for value in node.inputs[1:]):
        return "its weights are padded"
    return _windows(node, op.pads, False, padded)


@_rule.register
def _conv_transpose(op: ConvTranspose, node: Node, padded: Padded) -> str:
    """What lies behind the true elements would spread over the last true windows."""
    weights = any(padded.axes(value) for value in node.inputs[1:])
    return (
        ""
        if padded.axes(node.operand(0)) <= {0} and not weights
        else "its windows overlap along a padded axis"
    )


@_rule.register
def _top_k(op: TopK, node: Node, padded: Padded) -> str:
    count = node.inputs[1] if len(node.inputs) > 1 else None
    if padded.among(node.operand(0), [op.axis]) or padded.axes(count):
        return "it sorts along a padded axis"
    return "how many it keeps depends on sizes" if any(map(padded.holds, _attributes(op))) else ""


@_rule.register(MaxPool)
@_rule.register(AveragePool)
@_rule.register(LpPool)
def _pool(op: MaxPool | AveragePool | LpPool, node: Node, padded: Padded) -> str:
    if len(node.outputs) > 1 and node.outputs[1].uses:
        return "the positions of elements depend on sizes"
    return _windows(node, op.pads, op.ceil, padded, channels=True)


def _windows(node: Node, pads: Sequence[Dim], ceil: bool, padded: Padded, channels: bool = False) -> str:
    """A window of a true result reaches true elements alone where none hangs over the end."""
    x = node.operand(0)
    if not channels and padded.among(x, [1]):
        return "it sums along a padded axis"
    spatial = len(x.type.dims) - 2
    ends = pads[spatial:] or (0,) * spatial
    for axis in range(spatial):
        if padded.among(x, [axis + 2]) and (ceil or ends[axis] != 0):
            return f"windows extend beyond the end of axis {axis + 2}"
    return "a padding depends on sizes" if any(map(padded.holds, pads)) else ""


@_rule.register
def _pad(op: Pad, node: Node, padded: Padded) -> str:
    x = node.operand(0)
    rank = len(x.type.dims)
    for axis in range(rank):
        begin, end = (op.pads or (0,) * 2 * rank)[axis :: rank or 1]
        if padded.among(x, [axis]) and (end != 0 or op.mode not in ("constant", "edge")):
            return f"it pads the end of axis {axis}"
        if padded.holds(begin) or (padded.holds(end) and not padded.among(x, [axis])):
            return "a padding depends on sizes"
    return ""


@_rule.register
def _resize(op: Resize, node: Node, padded: Padded) -> str:
    before, after = node.operand(0).type.dims, node.output.type.dims
    for axis, (dim, size) in enumerate(zip(before, after, strict=True)):
        if (padded.holds(dim) or padded.holds(size)) and dim != size:
            return f"it resizes axis {axis}"
    return ""


@_rule.register
def _cumulative(op: Cumulative, node: Node, padded: Padded) -> str:
    if op.axis is None or (op.reverse and padded.among(node.operand(0), [op.axis])):
        return "it runs from the end of a padded axis"
    return ""


@_rule.register
def _recurrent(op: Recurrent, node: Node, padded: Padded) -> str:
    """Sequences of a batch do not touch each other."""
    x, batch = node.operand(0), 0 if op.batch_first else 1
    weights = any(padded.axes(value) for value in node.inputs[1:4])
    return "" if padded.axes(x) <= {batch} and not weights else "it runs along a padded axis"


def _dims(value: Value) -> str:
    return f"[{', '.join(map(str, value.type.dims))}]"
