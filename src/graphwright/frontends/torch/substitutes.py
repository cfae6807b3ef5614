"""Graph inputs that replace the results of unsupported nodes, so that the rest of a graph can be read."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from graphwright.frontends.torch.complex_numbers import Complex
from graphwright.frontends.torch.nodes import UnsupportedValue
from graphwright.frontends.torch.types import Unsupported, part_type_from, type_from
from graphwright.ir.graph import Graph


def substitute_inputs(graph: Graph, node: fx.Node) -> Any:
    """Adds inputs to ``graph`` for the results of ``node``. Returns them in the structure of the results."""
    if node.op == "call_function" and "val" not in node.meta:  # such as run_and_save_rng_state in checkpoints
        return UnsupportedValue("PyTorch does not record its results")
    return _substitute(graph, node.name, node.meta.get("val"))


def _substitute(graph: Graph, name: str, fake: Any) -> Any:
    if isinstance(fake, tuple | list):
        return tuple(_substitute(graph, f"{name}_{k}", each) for k, each in enumerate(fake))
    if isinstance(fake, torch.SymInt | torch.SymFloat | torch.SymBool):
        return UnsupportedValue("it is computed by an unsupported operator")
    if not isinstance(fake, torch.Tensor):
        return fake
    try:
        if fake.is_complex():
            part = part_type_from(fake)
            return Complex(graph.add_input(part, f"{name}_real"), graph.add_input(part, f"{name}_imag"))
        return graph.add_input(type_from(fake), name)
    except Unsupported as error:
        return UnsupportedValue(str(error))
