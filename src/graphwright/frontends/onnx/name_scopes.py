"""Reads the paths of PyTorch modules that the ONNX exporter of PyTorch stores in the metadata of nodes."""

from __future__ import annotations

import re
from typing import Final

NAME_SCOPES: Final = "pkg.torch.onnx.name_scopes"
"""Metadata key of a node. The value is a printed Python list: the qualified names of the modules that contain
the node, such as ``layer1.0.conv1``, and then the name of the node.
"""
_MOST: Final = 4096
"""The longest text that is parsed, because files are not trusted."""
_TEXT: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")


def modules_of(name_scopes: str) -> tuple[str, ...]:
    """``('layer1', '0', 'conv1')`` for ``['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d']``."""
    if len(name_scopes) > _MOST:
        return ()
    names = [first or second for first, second in _TEXT.findall(name_scopes)]
    return tuple(part for part in names[-2].split(".") if part) if len(names) > 1 else ()
