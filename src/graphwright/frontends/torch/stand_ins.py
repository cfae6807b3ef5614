"""Inputs in place of what cannot be read, so that the rest of a graph can be."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from graphwright.frontends.torch.nodes import Foreign
from graphwright.frontends.torch.types import Unsupported, type_from
from graphwright.ir.graph import Graph


def stand_ins(graph: Graph, node: fx.Node) -> Any:
    """Inputs of ``graph`` in place of what ``node`` gives: one, or a tuple of them, nested where it is."""
    if node.op == "call_function" and "val" not in node.meta:  # as run_and_save_rng_state of checkpoints
        return Foreign("PyTorch does not state what it gives")
    return _stand_in(graph, node.name, node.meta.get("val"))


def _stand_in(graph: Graph, name: str, fake: Any) -> Any:
    if isinstance(fake, tuple | list):
        return tuple(_stand_in(graph, f"{name}_{k}", each) for k, each in enumerate(fake))
    if isinstance(fake, torch.SymInt | torch.SymFloat | torch.SymBool):
        return Foreign("it is computed by what is not supported")
    if not isinstance(fake, torch.Tensor):
        return fake
    try:
        return graph.add_input(type_from(fake), name)
    except Unsupported as error:
        return Foreign(str(error))
