"""The elements of an axis that sliding windows read."""

from __future__ import annotations

from graphwright.ir.symbols import Dim


def window_span(windows: Dim, stride: Dim, taps: Dim, dilation: Dim) -> Dim:
    """The elements from the first to the last that ``windows`` adjacent windows read."""
    return (windows - 1) * stride + (taps - 1) * dilation + 1
