"""The modules of PyTorch that its exporter notes beside each node of ONNX."""

from __future__ import annotations

import re
from typing import Final

NAME_SCOPES: Final = "pkg.torch.onnx.name_scopes"
"""Metadata key of a node: a list of texts as Python prints it. The last is the node's own name, and each one
before it is a module, called by all attributes from the outermost module on: ``layer1.0.conv1``.
"""
_MOST: Final = 4096
"""Characters that are read: the list is a stranger's."""
_TEXT: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")


def modules_of(name_scopes: str) -> tuple[str, ...]:
    """``('layer1', '0', 'conv1')`` of ``['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d']``."""
    if len(name_scopes) > _MOST:
        return ()
    names = [first or second for first, second in _TEXT.findall(name_scopes)]
    return tuple(part for part in names[-2].split(".") if part) if len(names) > 1 else ()
