"""PyTorch module paths, which its ONNX exporter stores in the metadata of each node."""

from __future__ import annotations

import re
from typing import Final

NAME_SCOPES: Final = "pkg.torch.onnx.name_scopes"
"""Metadata key of a node. The value is a list of texts as Python prints it: the last is the name of the node,
and each one before it is the qualified name of a module, such as ``layer1.0.conv1``.
"""
_MOST: Final = 4096
"""Longest text that is parsed, as the file is not trusted."""
_TEXT: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")


def modules_of(name_scopes: str) -> tuple[str, ...]:
    """``('layer1', '0', 'conv1')`` for ``['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d']``."""
    if len(name_scopes) > _MOST:
        return ()
    names = [first or second for first, second in _TEXT.findall(name_scopes)]
    return tuple(part for part in names[-2].split(".") if part) if len(names) > 1 else ()
