"""Which operands and results of a node can be in blocked layout, and how much time that saves.

The op of a node decides (:mod:`graphwright.ir.interfaces.blocked_form`). The forms of a fused region follow
from its nodes: elementwise ops, reductions over pixels, and at most one kernel of contractions.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS, BlockedForm, can_be_blocked
from graphwright.ir.op import Trait, reduction_op
from graphwright.ir.symbols import Dim
from graphwright.layout import convolution_costs, pool_costs  # noqa: F401  they implement saved_ns
from graphwright.layout.choose import LayoutChoice
from graphwright.layout.costs import LayoutCosts, saved_ns
from graphwright.layout.min_cut import INFINITE


def form_of(node: Node, costs: LayoutCosts) -> LayoutChoice | str:
    """The operands and results of ``node`` that can be blocked, or the reason why none can."""
    return _region_form(node, costs) if isinstance(node.op, Fused) else _form(node, node.inputs, costs)


def _form(node: Node, operands: Sequence[Value | None], costs: LayoutCosts) -> LayoutChoice | str:
    """The form of one node. ``operands``: its operands, or the values outside a region that they stand
    for.
    """
    op = node.op
    if not isinstance(op, BlockedForm):
        return f"{op.name} has no kernel for blocked layouts"
    form = op.blocked_form(node, operands, costs.lanes)
    if isinstance(form, str):
        return form
    images = [*(operands[k] for k in form.operands), *(node.outputs[k] for k in form.results)]
    for image in images:
        if image is not None and not can_be_blocked(image):
            return f"{image.type} cannot be blocked"
    saved = INFINITE if form.only else saved_ns(op, node, form, operands, costs)
    return LayoutChoice(form.operands, form.results, saved)


def _region_form(node: Node, costs: LayoutCosts) -> LayoutChoice | str:
    """The form of a fused region."""
    body = region_of(node)
    outer = dict(zip(body.inputs, node.inputs, strict=True))
    constants = {value for value, source in outer.items() if source is not None and is_constant(source)}
    anchor = next(iter(anchors_of(body)), None)
    if anchor is None:
        blocked = _blocked_values(body, constants)
        if isinstance(blocked, str):
            return blocked
        passed = [value for value in (*body.inputs, *body.outputs) if value in blocked]
        return _choice(body, blocked, -sum(map(costs.padding_ns, passed)))
    given = _form(anchor, [v and outer[v] for v in anchor.inputs], costs)
    if isinstance(given, str):
        return given
    image = anchor.operand(0)
    if not given.results:
        return _one_channel_form(body, image, given)
    blocked = _blocked_values(body, constants)
    if isinstance(blocked, str):
        return blocked
    if not given.operands and image in blocked:
        return "the convolution needs its input row-major, but other nodes of the region blocked"
    return _choice(body, blocked | {image} if given.operands else blocked, given.saves)


def _choice(body: Graph, blocked: Set[Value], saves: float) -> LayoutChoice:
    return LayoutChoice(
        frozenset(k for k, value in enumerate(body.inputs) if value in blocked),
        frozenset(k for k, value in enumerate(body.outputs) if value in blocked),
        saves,
    )


def _blocked_values(body: Graph, constants: Set[Value]) -> set[Value] | str:
    """The values with channels that the loops of a region access, without ``constants``; or why they cannot
    be blocked. Each value that loops access must have all channels, or one.
    """
    values = loop_values(body)
    shape = max((v.type.shape or () for v in values), key=len, default=())
    refusal = _shape_refusal(values, shape) or next(filter(None, map(_node_refusal, body)), None)
    if refusal is not None:
        return refusal
    blocked = {v for v in values if has_channels(v, len(shape))} - constants
    for value in (*body.inputs, *body.outputs):
        if value in blocked and (len(value.type.dims) != len(shape) or not can_be_blocked(value)):
            return f"{value.type} cannot be blocked"
    return blocked


def _one_channel_form(body: Graph, image: Value, given: LayoutChoice) -> LayoutChoice | str:
    """The form of a region whose contraction reads a blocked ``image`` and has one output channel. The other
    nodes must work on that channel.
    """
    values = loop_values(body)
    rank = max((len(value.type.shape or ()) for value in values), default=0)
    if image in values or rank != len(image.type.dims) or any(has_channels(v, rank) for v in values):
        return "the convolution has one output channel, but other nodes of the region have more"
    return LayoutChoice(frozenset({body.inputs.index(image)}), frozenset(), given.saves)


def anchors_of(body: Graph) -> list[Node]:
    """The contractions in a region: one, or two matrix products with the same left operand."""
    return [n for n in body if Trait.CONTRACTION in n.op.traits]


def loop_values(body: Graph) -> list[Value]:
    """The values that the loops of a region access. Operands that only a contraction reads are not among
    them.
    """
    inputs = [v for v in body.inputs if any(Trait.CONTRACTION not in n.op.traits for n in v.users)]
    return [*inputs, *(v for n in body for v in n.outputs)]


def has_channels(value: Value, rank: int) -> bool:
    """Whether ``value`` has more than one channel if it is broadcast to ``rank``."""
    axis = channel_axis(value, rank)
    return axis >= 0 and value.type.dims[axis] != 1


def channel_axis(value: Value, rank: int) -> int:
    """The channel axis of ``value`` if it is broadcast to ``rank``; negative if it has none."""
    return len(value.type.dims) - rank + CHANNELS


def _shape_refusal(values: Sequence[Value], shape: Sequence[Dim]) -> str | None:
    """Why the loops over ``values``, of at most ``shape``, cannot iterate over blocks; None if they can."""
    if len(shape) not in (3, 4):
        return f"values of rank {len(shape)} cannot be blocked"
    counts = {v.type.dims[channel_axis(v, len(shape))] for v in values if has_channels(v, len(shape))}
    if len(counts) != 1 or not all(isinstance(c, int) for c in counts):
        return f"values have {' and '.join(sorted(map(str, counts))) or 'no'} channels"
    return None


def _node_refusal(node: Node) -> str | None:
    """Why a node of a region cannot work on blocks; None for elementwise ops and reductions over pixels."""
    if node.is_constant or Trait.CONTRACTION in node.op.traits:
        return None
    if Trait.REDUCTION in node.op.traits:
        reduction = reduction_op(node.op)
        axes = reduction.resolved(len(node.operand(0).type.dims))
        keeps_channels = reduction.keepdims and min(axes, default=0) > CHANNELS
        return None if keeps_channels else f"{node.op.name} reduces over or merges channels"
    is_elementwise = node.op.has_expression() and Trait.VIEW not in node.op.traits
    return None if is_elementwise else f"{node.op.name} moves elements"
