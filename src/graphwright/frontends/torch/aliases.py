"""Removes inputs of exported programs that are the same tensor as another input."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature


def without_aliases(program: ExportedProgram) -> ExportedProgram:
    """``program`` with one input for each of its parameters, buffers and constants.

    A cache can be a buffer and also a constant that the program writes to; PyTorch's decompositions reject
    such programs.
    """
    if not list(_aliases(program, program.graph)):
        return program
    module = copy.deepcopy(program.graph_module)
    removed = set()
    for node, first in _aliases(program, module.graph):
        node.replace_all_uses_with(first)
        module.graph.erase_node(node)
        removed.add(node.name)
    module.recompile()
    signature = program.graph_signature
    kept = [spec for spec in signature.input_specs if spec.arg.name not in removed]
    return program._update(
        module,
        ExportGraphSignature(input_specs=kept, output_specs=signature.output_specs),
        state_dict=program.state_dict,
        constants=program.constants,
    )


def _aliases(program: ExportedProgram, graph: fx.Graph) -> Iterator[tuple[fx.Node, fx.Node]]:
    """The inputs that are the same tensor as an earlier input, each with the earlier one."""
    firsts: dict[Any, fx.Node] = {}
    placeholders = graph.find_nodes(op="placeholder")
    for node, spec in zip(list(placeholders), program.graph_signature.input_specs, strict=True):
        held = (
            program.state_dict.get(spec.target, program.constants.get(spec.target)) if spec.target else None
        )
        if isinstance(held, torch.Tensor) and held.numel():
            key = held.data_ptr(), held.dtype, held.shape, held.stride()
            first = firsts.setdefault(key, node)
            if first is not node:
                yield node, first
