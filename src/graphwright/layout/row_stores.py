"""Lets convolutions that read channel blocks store row-major results, if every reader needs row-major images.

The direct kernel then transposes its tiles in L1, and no conversion reads the result from memory again. The
tiles of this kernel are narrower, so it pays only if the conversion takes a considerable part of the time.
Winograd convolutions and depthwise ones cannot store rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.graph import Node, Value
from graphwright.layout.choose import LayoutChoice
from graphwright.layout.convolution_costs import can_be_winograd, convolution_ns
from graphwright.layout.costs import LayoutCosts
from graphwright.layout.forms import anchors_of
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.spatial import is_depthwise
from graphwright.records import replace

_PART: Final = 0.05
"""The part of a convolution's time that the conversion of its result must take."""


def storing_rows(chosen: Mapping[Node, LayoutChoice], costs: LayoutCosts) -> dict[Node, LayoutChoice]:
    """``chosen``, except that convolutions that store rows have only their operand in blocks."""
    return {
        node: replace(form, results=frozenset()) if _stores_rows(node, form, chosen, costs) else form
        for node, form in chosen.items()
    }


def _stores_rows(
    node: Node, form: LayoutChoice, chosen: Mapping[Node, LayoutChoice], costs: LayoutCosts
) -> bool:
    if len(node.outputs) != 1 or not form.results or _is_read_blocked(node.output, chosen):
        return False
    body = region_of(node) if isinstance(node.op, Fused) else None
    anchor = node if body is None else next(iter(anchors_of(body)), None)
    if anchor is None or not isinstance(anchor.op, Conv):
        return False
    op, image, w = anchor.op, anchor.operand(0), anchor.operand(1)
    position = 0 if body is None else body.inputs.index(image)
    if form.operands != {position} or is_depthwise(op.group, w.type.dims):
        return False
    if can_be_winograd(op.windows(w.type.dims[2:]), op.group):
        return False
    _, blocked = convolution_ns(op, w, anchor.output, costs, planes=False)
    return costs.transfer_ns(node.output) > _PART * blocked


def _is_read_blocked(value: Value, chosen: Mapping[Node, LayoutChoice]) -> bool:
    return any(reader in chosen and position in chosen[reader].operands for reader, position in value.uses)
