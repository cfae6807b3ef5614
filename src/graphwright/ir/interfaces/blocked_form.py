"""Interface of ops with kernels for blocked layouts: images [N, C, ...] stored as [N, C /
lanes, ..., lanes].

A vector then holds channels of one pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphwright.ir.graph import Node, Value
from graphwright.ir.types import F32
from graphwright.records import dataclass

CHANNELS: Final = 1
"""The channel axis."""


@dataclass(frozen=True)
class Blocked:
    """The positions of operands and results in blocked layout; all others are row-major."""

    operands: frozenset[int] = frozenset({0})
    results: frozenset[int] = frozenset({0})
    only: bool = False
    """Whether there is no kernel for row-major operands."""


class BlockedForm:
    """Interface of ops that have a kernel for blocked layouts.

    Ops with an expression do not need it: loops of a region iterate over blocks as over rows.
    """

    __slots__ = ()

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """The blocked operands and results of ``node`` with blocks of ``lanes`` channels, or the reason why
        it cannot be blocked.

        ``operands``: the operands of ``node``, or inside a fused region the values outside that they stand
        for, so that constants can be recognized.
        """
        raise NotImplementedError(f"{type(self).__name__} implements BlockedForm without blocked_form")


def can_be_blocked(value: Value) -> bool:
    """Whether ``value`` can have a blocked layout: f32, several channels, one or two spatial axes."""
    channels = _channels(value)
    return isinstance(channels, int) and channels > 1


def has_one_channel(value: Value) -> bool:
    """Whether ``value`` is an f32 image with one channel, which is never blocked."""
    return _channels(value) == 1


def _channels(value: Value) -> object:
    shape = value.type.shape
    if value.type.dtype != F32 or shape is None or len(shape) not in (3, 4):
        return None
    return shape[CHANNELS]
