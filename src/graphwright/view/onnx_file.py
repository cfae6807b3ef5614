"""Writes a picture as an ONNX model for viewers such as Netron and Model Explorer; it cannot be run.

Boxes become nodes of a separate domain, and regions become functions. The facts about a box are in its
``metadata_props``, under names that begin with ``graphwright.``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import onnx
from onnx import helper

from graphwright.frontends.onnx.types import type_proto
from graphwright.ir.types import TensorType
from graphwright.records import dataclass
from graphwright.support.escaping import identifier
from graphwright.support.unique_names import UniqueNames
from graphwright.view.nesting import Nesting
from graphwright.view.picture import INPUT, OUTPUT, ROOT, GraphPicture, PictureEdge, PictureNode

DOMAIN: Final = "graphwright.view"
REGIONS: Final = "graphwright.view.regions"
"""The domain of functions. It differs from that of nodes, as a region can have the name of an op in it, and
functions must not be recursive.
"""
OPSET: Final = 17
IR_VERSION: Final = 10  # the first version with metadata of nodes


def onnx_model(picture: GraphPicture, title: str) -> onnx.ModelProto:
    """``picture`` as an ONNX model, deterministic."""
    return _Writer(picture, title).model()


@dataclass(frozen=True)
class _Unit:
    """The source of one node: a box, or a region, whose function contains ``members``."""

    node: PictureNode
    members: Sequence[int]
    region: int = ROOT


class _Writer:
    def __init__(self, picture: GraphPicture, title: str) -> None:
        self._picture, self._title = picture, title
        self._names, self._values, self._functions = UniqueNames(), UniqueNames(), UniqueNames()
        self._value_of: dict[tuple[int, int], str] = {}
        self._region = _outermost_regions(picture)
        self._entering: list[list[PictureEdge]] = [[] for _ in picture.nodes]
        self._leaving: list[list[PictureEdge]] = [[] for _ in picture.nodes]
        for edge in picture.edges:
            self._entering[edge.consumer].append(edge)
            self._leaving[edge.producer].append(edge)

    def model(self) -> onnx.ModelProto:
        """The whole model."""
        graph = onnx.GraphProto(name=f"{self._title}: {self._picture.stage}")
        functions = []
        for unit in self._units():
            if unit.region == ROOT and unit.node.op == INPUT:
                graph.input.extend(self._infos(unit.members, self._leaving))
            elif unit.region == ROOT and unit.node.op == OUTPUT:
                graph.output.extend(self._infos(unit.members, self._entering))
            else:
                graph.node.append(self._node(unit))
                if unit.region != ROOT:
                    functions.append(self._function(unit, graph.node[-1].op_type))
        proto = onnx.ModelProto(
            ir_version=IR_VERSION, producer_name="graphwright", graph=graph, functions=functions
        )
        proto.opset_import.append(helper.make_opsetid("", OPSET))
        proto.opset_import.extend(helper.make_opsetid(domain, 1) for domain in (DOMAIN, REGIONS))
        return proto

    def _units(self) -> Iterable[_Unit]:
        """The units in the order of the picture; a region is at the position of its last box, after all
        values that it reads.
        """
        members: dict[int, list[int]] = {}
        for number, region in enumerate(self._region):
            members.setdefault(region, []).append(number)
        for number, region in enumerate(self._region):
            if region == ROOT:
                yield _Unit(self._picture.nodes[number], (number,))
            elif members[region][-1] == number:
                node = self._picture.groups[region].node
                assert node is not None
                yield _Unit(node, members[region], region)

    def _node(self, unit: _Unit) -> onnx.NodeProto:
        read, written = self._borders(unit.members)
        op = identifier(unit.node.op, "Op")
        return _described(
            onnx.NodeProto(
                op_type=self._functions.take(op) if unit.region != ROOT else op,
                domain=REGIONS if unit.region != ROOT else DOMAIN,
                name=self._names.take(self._path(unit)),
                input=read,
                output=written,
            ),
            unit.node,
        )

    def _function(self, unit: _Unit, name: str) -> onnx.FunctionProto:
        read, written = self._borders(unit.members)
        body = onnx.FunctionProto(name=name, domain=REGIONS, input=read, output=written)
        for member in unit.members:
            body.node.append(self._node(_Unit(self._picture.nodes[member], (member,))))
        body.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        return body

    def _borders(self, members: Sequence[int]) -> tuple[list[str], list[str]]:
        """The names of the values that ``members`` read from other boxes, and of the values that other boxes
        read.
        """
        inside = set(members)
        read = [e for k in members for e in self._entering[k] if e.producer not in inside]
        written = [
            e for k in members for e in self._leaving[k] if len(inside) == 1 or e.consumer not in inside
        ]
        return self._values_of(read), self._values_of(written)

    def _values_of(self, edges: Iterable[PictureEdge]) -> list[str]:
        return list(dict.fromkeys(map(self._value, edges)))

    def _infos(
        self, members: Sequence[int], edges: Sequence[Sequence[PictureEdge]]
    ) -> list[onnx.ValueInfoProto]:
        found = {self._value(edge): edge.type for member in members for edge in edges[member]}
        return [onnx.ValueInfoProto(name=name, type=_type_of(type)) for name, type in found.items()]

    def _value(self, edge: PictureEdge) -> str:
        key = edge.producer, edge.value
        if key not in self._value_of:
            name = self._picture.nodes[edge.producer].name or f"value {edge.value}"
            self._value_of[key] = self._values.take(name)
        return self._value_of[key]

    def _path(self, unit: _Unit) -> str:
        """The name with its scopes as a prefix, which viewers can open and close."""
        own = unit.node.op if unit.region != ROOT else unit.node.name.rpartition("/")[2] or unit.node.op
        return "/".join([*unit.node.scope, own])


def _outermost_regions(picture: GraphPicture) -> list[int]:
    """The outermost region of each node, or the root."""
    nesting = Nesting(picture.groups)
    found = []
    for node in picture.nodes:
        regions = [k for k in nesting.around(node.group) if picture.groups[k].node is not None]
        found.append(regions[-1] if regions else ROOT)
    return found


def _type_of(type: TensorType | None) -> onnx.TypeProto:
    """The type of a value; if it is unknown, its number of bytes."""
    return helper.make_tensor_type_proto(onnx.TensorProto.UINT8, [None]) if type is None else type_proto(type)


def _described(proto: onnx.NodeProto, node: PictureNode) -> onnx.NodeProto:
    """``proto`` with the facts about ``node``."""
    known = {**node.facts, **{name: f"{value:.0f}" for name, value in node.figures.items()}}
    known |= {"layout": node.layout, "kernel": ", ".join(node.kernels)}
    known |= {"sources": json.dumps(list(node.sources))} if node.sources else {}
    for name, text in known.items():
        if text:
            proto.metadata_props.add(key=f"graphwright.{name.replace(' ', '_')}", value=text)
    return proto
