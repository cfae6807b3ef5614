"""Branches that cannot run with the sizes of the model. Each becomes a region with one Fail node, which
raises the error of its inference if the branch is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.errors import Diagnostic
from graphwright.ir.builtin.fail import Fail
from graphwright.ir.graph import Graph, Node
from graphwright.ir.types import TensorType


def failing_region(region: Graph, types: Sequence[TensorType], reason: Diagnostic) -> Graph:
    """A region with the inputs of ``region`` that fails when it runs; its outputs have ``types``."""
    failing = Graph(region.name)
    for value in region.inputs:
        failing.add_input(value.type, value.name)
    location = f"{reason.where}: {reason.message}"
    node = failing.append(Node(Fail(tuple(types)), (), types, sources=(location,)))
    failing.set_outputs(node.outputs, region.output_names)
    return failing


def refresh_failing(node: Node) -> bool:
    """Gives failing branches of ``node`` the output types that are now known from the other branches. Returns
    whether any changed.
    """
    failing = [r for r in node.regions if len(r) == 1 and all(isinstance(n.op, Fail) for n in r)]
    sound = next((r for r in node.regions if r not in failing), None)
    if sound is None:
        return False
    types = tuple(value.type for value in sound.outputs)
    changed = False
    for region in failing:
        (stub,) = region
        if stub.op != Fail(types):
            stub.op = Fail(types)
            for value, type in zip(stub.outputs, types, strict=True):
                value.type = type
            changed = True
    return changed
