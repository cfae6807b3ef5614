"""The modules that a node of an FX graph is in."""

from __future__ import annotations

import re
from typing import Final

from torch import fx

from graphwright.ir.build import Builder

_STACK: Final = "nn_module_stack"
"""What PyTorch calls the metadata: modules by name, outermost first, each as its path and its class."""
_PARTS: Final = re.compile(r"[^.\[\]']+")


def note_modules(node: fx.Node, builder: Builder) -> None:
    """Keep the path of the innermost module: ``('layer1', '0', 'conv1')`` of ``L['self'].layer1.0.conv1``."""
    stack = list((node.meta.get(_STACK) or {}).values())
    if not stack or not isinstance(stack[-1], tuple) or not isinstance(stack[-1][0], str):
        return
    path = tuple(_PARTS.findall(stack[-1][0].removeprefix("L['self']")))
    for source in builder.sources if path else ():
        builder.module.scopes.setdefault(source, path)
