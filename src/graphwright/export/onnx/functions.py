"""Names of the functions that fused regions become; equal functions are one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import onnx

from graphwright.ir.graph import Graph
from graphwright.ir.names import identifier
from graphwright.ir.op import Trait
from graphwright.records import dataclass, field

FUNCTION_DOMAIN: Final = "graphwright.fused"
"""The domain of functions that fusion made: a model that has one was fused here."""
MAX_WORDS: Final = 6
"""Ops that a name lists; a region of more is named for the first ones."""


@dataclass
class Functions:
    """The functions of a model, by name."""

    protos: dict[str, onnx.FunctionProto] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)

    def add(self, body: onnx.FunctionProto, region: Graph) -> str:
        """The name of the function that does what ``body``, which has no name yet, does on these types."""
        types = "; ".join(str(value.type) for value in region.inputs)
        key = body.SerializeToString(deterministic=True) + types.encode()
        if key not in self._names:
            name = f"{label(region)}_{len(self._names) + 1}"
            body.name = self._names[key] = name
            self.protos[name] = body
        return self._names[key]


def label(region: Graph) -> str:
    """What ``region`` does, as in ``layernorm_matmul_gelu``: its ops in order, views left out."""
    words = [_word(node.op.name) for node in region if node.inputs and Trait.VIEW not in node.op.traits]
    words = [word for word, _ in groupby(words)]
    return identifier("_".join(_shortened(words)), "region")


def _word(name: str) -> str:
    """``layernorm`` of LayerNormalization, ``mean`` of ReduceMean."""
    return name.lower().replace("normalization", "norm").removeprefix("reduce")


def _shortened(words: Sequence[str]) -> Sequence[str]:
    return words if len(words) <= MAX_WORDS else [*words[: MAX_WORDS - 1], "more"]
