"""Streams: labels of steps that may run beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node
from graphwright.kernels.launch import Step


def assign_streams(steps: Sequence[Step], count: int) -> dict[Node, int]:
    """A stream in ``[0, count)`` per step: the stream that ended with one of its operands, else the idlest.

    With one stream all tasks run in order, each over all threads: the least memory, and best where tasks are
    large.
    """
    streams: dict[Node, int] = {}
    last: list[Node | None] = [None] * count
    load = [0] * count
    for step in steps:
        producers = {v.producer for v in step.node.inputs if v is not None}
        following = [s for s in range(count) if last[s] is not None and last[s] in producers]
        stream = following[0] if following else min(range(count), key=lambda s: (load[s], s))
        streams[step.node], last[stream] = stream, step.node
        load[stream] += 1
    return streams
