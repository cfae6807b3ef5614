"""The record of a kernel choice: what was chosen, and why not the alternatives. Packages store it."""

from __future__ import annotations

import enum

from graphwright.records import dataclass


class WhyNot(enum.StrEnum):
    """Why a kernel was not taken. Codes are stable: programs may compare them."""

    means: str
    """One sentence for users."""

    def __new__(cls, text: str, means: str) -> WhyNot:
        code = str.__new__(cls, text)
        code._value_, code.means = text, means
        return code

    COST = "KERNEL_COST", "its predicted time is longer"
    MEASURED = "KERNEL_MEASURED", "measured on this machine, it takes longer than predicted"
    ILLEGAL = "KERNEL_ILLEGAL", "it does not support this node: the reason says why"
    NUMERICS = "KERNEL_NUMERICS", "its errors exceed what the option numerics allows"
    PLUGIN = "KERNEL_PLUGIN", "a user's own kernel computes the node and takes precedence"

    def __repr__(self) -> str:
        return self.value


@dataclass(frozen=True)
class NotTaken:
    """An alternative that was considered. ``ns``: its predicted time on one core in nanoseconds, if known."""

    name: str
    code: WhyNot
    why: str = ""
    ns: int | None = None


@dataclass(frozen=True)
class KernelChoice:
    """The kernels that compute the node at ``location``, and the alternatives. ``taken`` is empty if Python
    runs the node. ``ns`` is None if there is no alternative to compare with.
    """

    location: str
    taken: tuple[str, ...]
    ns: int | None
    others: tuple[NotTaken, ...]
