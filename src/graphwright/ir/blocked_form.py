"""What an op tells of channel blocks: images [N, C, ...] that lie as [N, C / lanes, ..., lanes].

A vector then holds channels of one pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphwright.ir.graph import Node, Value
from graphwright.ir.types import F32
from graphwright.records import dataclass

CHANNELS: Final = 1
"""The axis of channels."""


@dataclass(frozen=True)
class Blocked:
    """Which operands and results, by position, lie in channel blocks; all others are row-major."""

    operands: frozenset[int] = frozenset({0})
    results: frozenset[int] = frozenset({0})
    only: bool = False
    """Whether there is no kernel for row-major operands."""


class BlockedForm:
    """Interface of ops that have a kernel on channel blocks. They define its method.

    Ops with an expression need none: the loops of a region walk blocks as they do rows.
    """

    __slots__ = ()

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """How ``node`` works on blocks of ``lanes`` channels, or the reason why it does not.

        ``operands`` are those of ``node``, as the graph around a fused region knows them: there, constants
        can be told.
        """
        raise NotImplementedError(f"{type(self).__name__} is a BlockedForm without blocked_form")


def can_be_blocked(value: Value) -> bool:
    """Whether kernels may work on ``value`` in blocks: f32, some channels, one or two spatial axes."""
    channels = _channels(value)
    return isinstance(channels, int) and channels > 1


def has_one_channel(value: Value) -> bool:
    """Whether ``value`` is f32 images of one channel: those stay in planes."""
    return _channels(value) == 1


def _channels(value: Value) -> object:
    shape = value.type.shape
    if value.type.dtype != F32 or shape is None or len(shape) not in (3, 4):
        return None
    return shape[CHANNELS]
