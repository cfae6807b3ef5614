"""What a region is called: after what it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from graphwright.ir.graph import Graph, Node
from graphwright.ir.names import identifier
from graphwright.ir.op import Trait
from graphwright.ir.region_op import CallOp

MAX_WORDS: Final = 6
"""Ops that a name lists; a region of more is named for the first ones."""


def region_name(region: Graph) -> str:
    """What ``region`` does, as in ``layernorm_matmul_gelu``: its ops in order, views left out."""
    nodes = [node for node in _inner(region) if node.inputs and Trait.VIEW not in node.op.traits]
    words = [_word(node.op.name) for node in nodes]
    words = [word for word, _ in groupby(words)]
    return identifier("_".join(_shortened(words)), "region")


def _inner(region: Graph) -> Iterator[Node]:
    """The nodes of ``region``, those of calls in place of the calls."""
    for node in region:
        yield from _inner(node.regions[0]) if isinstance(node.op, CallOp) else (node,)


def _word(name: str) -> str:
    """``layernorm`` of LayerNormalization, ``mean`` of ReduceMean."""
    return name.lower().replace("normalization", "norm").removeprefix("reduce")


def _shortened(words: Sequence[str]) -> Sequence[str]:
    return words if len(words) <= MAX_WORDS else [*words[: MAX_WORDS - 1], "more"]
