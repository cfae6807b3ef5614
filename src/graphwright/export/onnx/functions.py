"""The ONNX functions for fused regions; equal functions are written once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import onnx

from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.builtin.fused import region_of
from graphwright.ir.builtin.subgraph import Subgraph
from graphwright.ir.graph import Node
from graphwright.records import dataclass, field
from graphwright.support.escaping import identifier

FUNCTION_DOMAIN: Final = "graphwright.fused"
"""The domain of functions for fused regions; a model with such a function was fused by graphwright."""


@dataclass
class Functions:
    """The functions of a model by name, and the nodes that call them."""

    protos: dict[str, onnx.FunctionProto] = field(default_factory=dict)
    calls: dict[str, list[Node]] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)

    def add(self, body: onnx.FunctionProto, node: Node) -> str:
        """Adds the function ``body``, which has no name yet, for the call by ``node``; returns its name,
        which is that of an equal function if there is one. The name of a program ends with a digest of all
        that it computes with: a library of another model has no operator of this name.
        """
        region = region_of(node)
        types = "; ".join(str(value.type) for value in region.inputs)
        key = body.SerializeToString(deterministic=True) + f"{types} {node.op}".encode()
        if key not in self._names:
            name = f"{identifier(region.name)}_{len(self._names) + 1}"
            if isinstance(node.op, Subgraph):
                name += f"_{self._digest(key, body, node)}"
            body.name = self._names[key] = name
            self.protos[name] = body
        self.calls.setdefault(self._names[key], []).append(node)
        return self._names[key]

    def _digest(self, key: bytes, body: onnx.FunctionProto, node: Node) -> str:
        """A digest of a function with the functions that it calls, and the constants that ``node`` passes."""
        called = [
            self.protos[each.op_type] for each in all_nodes(body.node) if each.domain == FUNCTION_DOMAIN
        ]
        constants = [constant.value.digest for value in node.inputs if (constant := constant_of(value))]
        parts = [
            key,
            *(each.SerializeToString(deterministic=True) for each in called),
            "".join(constants).encode(),
        ]
        return hashlib.sha256(b"".join(parts)).hexdigest()[:8]


@dataclass(frozen=True)
class FusedFunction:
    """A function of a fused model."""

    name: str
    nodes: int
    """The number of its nodes, including those in branches, in loops and in functions that it calls."""
    calls: int
    """The number of calls of the function in the model."""


def fused_functions(model: onnx.ModelProto) -> list[FusedFunction]:
    """The functions of ``model`` for fused regions, ordered by the number of graph nodes that they
    replace.
    """
    nodes = [*all_nodes(model.graph.node), *(n for each in model.functions for n in all_nodes(each.node))]
    calls = Counter(node.op_type for node in nodes if node.domain == FUNCTION_DOMAIN)
    bodies = {each.name: each for each in model.functions if each.domain == FUNCTION_DOMAIN}
    found = [FusedFunction(name, _count(body, bodies), calls[name]) for name, body in bodies.items()]
    return sorted(found, key=lambda each: (-each.nodes * each.calls, each.name))


def _count(body: onnx.FunctionProto, bodies: Mapping[str, onnx.FunctionProto]) -> int:
    """The number of nodes of a function; a node without inputs is a constant."""
    return sum(
        _count(bodies[node.op_type], bodies) if node.domain == FUNCTION_DOMAIN else bool(node.input)
        for node in all_nodes(body.node)
    )


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """``nodes`` and the nodes of their branches and loops."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from all_nodes(attribute.g.node)
