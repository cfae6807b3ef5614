"""The picture of a module at a stage of its compilation."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.fusion.traffic import NodeTraffic, node_traffic
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op.region_op import CallOp
from graphwright.ir.symbols import SymbolTable
from graphwright.ir.text.printer import attributes_text
from graphwright.records import replace
from graphwright.view.picture import INPUT, OUTPUT, GraphPicture, Group, PictureEdge, PictureNode
from graphwright.view.scopes import DEEPEST, Groups, Path, simplified

MOST_TEXT = 2000
"""The most characters of the attributes of a node that are shown."""


def picture_of(stage: str, module: Module, scopes: Mapping[str, Path] | None) -> GraphPicture:
    """The picture of ``module``."""
    builder = ModulePicture(stage, scopes)
    builder.add(module)
    return builder.picture()


class ModulePicture:
    """Builds the picture of all modules that a model was partitioned into; each one is a group."""

    def __init__(self, stage: str, scopes: Mapping[str, Path] | None = None) -> None:
        """``scopes``: see :class:`Groups`."""
        self._stage, self._count = stage, 0
        self._nodes: list[PictureNode] = []
        self._edges: list[PictureEdge] = []
        self._groups = Groups(scopes)
        self._made: dict[Value, tuple[int, int]] = {}
        """For each value, the node that makes it, and the number of the output."""

    def add(self, module: Module) -> None:
        """Adds a module. It may change afterwards."""
        top = self._groups.add(Group(f"program {self._count}"))
        self._count += 1
        for name, graph in module.graphs.items():
            group = self._groups.add(Group(name, top)) if len(module.graphs) > 1 else top
            self._entry(graph, group, module.symbols)

    def picture(self) -> GraphPicture:
        """The picture of all modules that were added."""
        picture = GraphPicture(
            self._stage, tuple(self._nodes), tuple(self._edges), tuple(self._groups.groups)
        )
        return simplified(picture)

    def _entry(self, graph: Graph, group: int, symbols: SymbolTable, known: int = 0) -> None:
        """Adds a whole graph with its inputs and outputs; for ``known``, see :meth:`_body`."""
        self._inputs(graph, group)
        self._body(graph, group, symbols, known)
        self._outputs(graph, group)

    def _inputs(self, graph: Graph, group: int) -> None:
        for value in graph.inputs:
            facts = {"type": value_type_text(value)}
            self._made[value] = self._add(PictureNode(INPUT, value.name, group, facts=facts)), 0

    def _outputs(self, graph: Graph, group: int) -> None:
        for value, name in zip(graph.outputs, graph.output_names, strict=True):
            facts = {"type": value_type_text(value)}
            if is_constant(value):
                facts["value"] = "a constant"
            self._read(value, self._add(PictureNode(OUTPUT, name, group, facts=facts)))

    def _body(self, graph: Graph, top: int, symbols: SymbolTable, known: int) -> None:
        """Adds the nodes of a graph, in scopes inside the group ``top``, which is itself in the first
        ``known`` scopes.
        """
        for node in graph:
            if node.is_constant:
                continue
            scope = self._groups.path(node.sources)
            group = self._groups.scope(top, scope[known:])
            picture = picture_node(node, group, scope, node_traffic(node, symbols))
            if isinstance(node.op, CallOp) and _has_nodes(node.regions[0]):
                self._inline(node, picture, symbols)
            elif node.regions:
                self._nest(node, picture, symbols)
            else:
                self._node(node, picture)

    def _node(self, node: Node, picture: PictureNode) -> None:
        number = self._add(picture)
        for operand in node.inputs:
            self._read(operand, number)
        for index, result in enumerate(node.outputs):
            self._made[result] = number, index

    def _inline(self, node: Node, picture: PictureNode, symbols: SymbolTable) -> None:
        """Adds a region as part of the graph around it: its nodes read the operands directly."""
        (region,) = node.regions
        inside = self._groups.add(Group(node.location, picture.group, picture))
        for inner, operand in zip(region.inputs, node.inputs, strict=True):
            if operand is not None and operand in self._made:
                self._made[inner] = self._made[operand]
        flat = isinstance(node.op, Fused)  # few nodes, which need no scopes
        self._body(region, inside, symbols, DEEPEST if flat else len(picture.scope))
        for result, inner in zip(node.outputs, region.outputs, strict=True):
            if inner in self._made:
                self._made[result] = self._made[inner]

    def _nest(self, node: Node, picture: PictureNode, symbols: SymbolTable) -> None:
        """Adds branches and bodies of loops, in a group with the node that runs them."""
        inside = self._groups.add(Group(node.location, picture.group))
        self._node(node, replace(picture, group=inside))
        for number, region in enumerate(node.regions):
            name = region.name or f"region {number}"
            body = self._groups.add(Group(name, inside))
            self._entry(region, body, symbols, len(picture.scope))

    def _add(self, node: PictureNode) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _read(self, value: Value | None, reader: int) -> None:
        if value is not None and value in self._made:
            producer, index = self._made[value]
            self._edges.append(PictureEdge(producer, reader, index, value_type_text(value), value.type))


def _has_nodes(region: Graph) -> bool:
    return any(not node.is_constant for node in region)


def picture_node(node: Node, group: int, scope: Path, traffic: NodeTraffic) -> PictureNode:
    """Adds only ``node``, as a box in ``group``."""
    layouts = [str(value.layout) for value in node.outputs if value.layout is not None]
    return PictureNode(
        " + ".join(traffic.ops) if isinstance(node.op, Fused) else node.op.name,
        node.location,
        group,
        node.sources,
        scope,
        _facts(node),
        {
            "bytes": traffic.fused.total,
            "bytes_read": traffic.fused.read,
            "bytes_written": traffic.fused.written,
            "weights": traffic.weights,
        },
        layouts[0] if layouts else "",
        results=tuple(value.name for value in node.outputs if value.name),
    )


def _facts(node: Node) -> Mapping[str, str]:
    constants = [value_type_text(value) for value in node.inputs if value is not None and is_constant(value)]
    values = [value_type_text(value) for value in node.inputs if value is not None and not is_constant(value)]
    attributes = "" if isinstance(node.op, CallOp) else attributes_text(node.op).strip("[]")
    schedule = node.op.schedule if isinstance(node.op, Fused) else None
    facts = {
        "attributes": attributes[:MOST_TEXT],
        "loops": "" if schedule is None else schedule.strategy.value,
        "reads": "\n".join(values),
        "constants": "\n".join(constants),
        "gives": "\n".join(value_type_text(value) for value in node.outputs),
    }
    return {name: text for name, text in facts.items() if text}


def value_type_text(value: Value) -> str:
    """The type of ``value``, and its layout if it has one."""
    layout = "" if value.layout is None else f" {value.layout}"
    return f"{value.type}{layout}"
