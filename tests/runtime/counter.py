"""A model with a state."""

from __future__ import annotations

from typing import Any

import graphwright as gw
from graphwright.config import Options


def options(device: str = "cpu", **more: Any) -> Options:
    return Options(device=device, threads=1, verify=True, **more)


def counter(device: str = "cpu") -> gw.Model:
    """Adds ``x`` to a state, and gives the state of before."""
    b = gw.GraphBuilder()
    x, count = b.input("x", "f32", (3,)), b.state("count", "f32", (3,))
    b.update(count, b.add(count, x))
    b.output("before", count)
    return b.compile(options(device))
