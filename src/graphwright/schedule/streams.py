"""Assigns steps to streams: steps in different streams may run concurrently."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node
from graphwright.kernels.launch import SelectedNode


def assign_streams(steps: Sequence[SelectedNode], count: int) -> dict[Node, int]:
    """A stream in ``[0, count)`` for each step: a stream whose last step makes one of its operands, or else
    the stream with the fewest steps.

    With one stream, tasks run in order, each on all threads. This needs the least memory and is best for
    large tasks.
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
