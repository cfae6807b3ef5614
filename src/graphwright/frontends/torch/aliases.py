"""Inputs of an exported program that are one tensor under several names."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature


def without_aliases(program: ExportedProgram) -> ExportedProgram:
    """``program``, in which each tensor that it holds is one input: a cache may be a buffer under one name,
    and a constant that is written to under another, which PyTorch's decompositions refuse.
    """
    if not list(_aliases(program, program.graph)):
        return program
    module = copy.deepcopy(program.graph_module)
    gone = set()
    for node, first in _aliases(program, module.graph):
        node.replace_all_uses_with(first)
        module.graph.erase_node(node)
        gone.add(node.name)
    module.recompile()
    signature = program.graph_signature
    kept = [spec for spec in signature.input_specs if spec.arg.name not in gone]
    return program._update(
        module,
        ExportGraphSignature(input_specs=kept, output_specs=signature.output_specs),
        state_dict=program.state_dict,
        constants=program.constants,
    )


def _aliases(program: ExportedProgram, graph: fx.Graph) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Inputs that are the tensor of an earlier one, with that."""
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
