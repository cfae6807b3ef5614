"""The PyTorch modules that contain a node of an FX graph."""

from __future__ import annotations

import re
from typing import Final

from torch import fx

from graphwright.ir.build import Builder

_STACK: Final = "nn_module_stack"
"""The metadata key of the path and class of each enclosing module, outermost first."""
_PARTS: Final = re.compile(r"[^.\[\]']+")


def note_modules(node: fx.Node, builder: Builder) -> None:
    """Records the path of the innermost module, such as ``('layer1', '0')`` for ``L['self'].layer1.0``."""
    stack = list((node.meta.get(_STACK) or {}).values())
    if not stack or not isinstance(stack[-1], tuple) or not isinstance(stack[-1][0], str):
        return
    path = tuple(_PARTS.findall(stack[-1][0].removeprefix("L['self']")))
    for source in builder.sources if path else ():
        builder.module.scopes.setdefault(source, path)
