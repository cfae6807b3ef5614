"""The types of branches that cannot run with the sizes of the model: each is a region with one Fail node."""

from __future__ import annotations

from graphwright.ir.builtin.fail import Fail
from graphwright.ir.graph import Node


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
