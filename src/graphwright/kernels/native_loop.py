"""Decides which loops run natively inside a program: those whose sizes are all known before a run."""

from __future__ import annotations

from collections.abc import Set

from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Node
from graphwright.ops.control.loop import Loop


def why_not_native(node: Node, known: Set[str]) -> str:
    """Why the host has to run a loop, given that the sizes ``known`` are known; empty if it can run in a
    program.

    A loop can run in a program if iterations do not change the shape of a loop-carried value, and the number
    of rows of scan outputs follows from shapes.
    """
    loop = node.op
    if not isinstance(loop, Loop):
        return ""
    where, region = loop.loop_carried(), node.regions[0]
    starts = node.inputs[where.start : where.start + where.count]
    received = region.inputs[where.receive : where.receive + where.count]
    given = region.outputs[where.result : where.result + where.count]
    for index, values in enumerate(zip(starts, received, given, strict=True)):
        types = list(dict.fromkeys(value.type for value in values if value is not None))
        if len(types) > 1 or types[0].shape is None:
            changes = " becomes ".join(map(str, types))
            return f"iterations change the type of loop-carried value {index}: {changes}"
    counted = loop.trips is not None or (loop.counted and node.operand(0).type.rank == 1)
    if loop.scans and (loop.conditional or not counted):
        return "the number of rows of its scan outputs is known only after the last iteration"
    types = [v.type for v in (*region.inputs, *(v for inner in region.walk() for v in inner.outputs))]
    without = sorted({t.dtype.name for t in types if not t.dtype.bits})
    if without:
        return f"its body has values whose elements have no fixed size: {', '.join(without)}"
    if any(type.shape is None for type in types):
        return "its body has a value of unknown rank"
    sizes = sorted(symbols_in([*types, *(v.type for v in node.outputs)]) - known)
    return f"its body has data-dependent sizes: {', '.join(sizes)}" if sizes else ""
