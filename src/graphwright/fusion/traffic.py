"""The memory traffic of a fused graph in bytes, and that of the same ops if each were a kernel of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphwright.cost.nominal import nominal
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.op import Trait
from graphwright.ir.symbols import SymbolTable
from graphwright.layout.trans_data import TransData
from graphwright.records import dataclass


@dataclass(frozen=True)
class Traffic:
    """Bytes read and written in one run. Constants are not counted."""

    read: int = 0
    written: int = 0

    @property
    def total(self) -> int:
        """Bytes read plus bytes written."""
        return self.read + self.written

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.read + other.read, self.written + other.written)


@dataclass(frozen=True)
class NodeTraffic:
    """Memory traffic of one node of a fused graph. ``unfused`` is the traffic of its ops if each were a
    kernel of its own; ``weights`` is the number of bytes of constants that the node reads in addition.
    """

    name: str
    ops: tuple[str, ...]
    sources: tuple[str, ...]
    fused: Traffic
    unfused: Traffic
    weights: int


def traffic_of(module: Module) -> list[NodeTraffic]:
    """The traffic of each node that runs, in graph order. Regions of control flow count as if they ran once;
    symbolic sizes have their nominal value (:func:`graphwright.cost.nominal.nominal`).
    """
    return [node_traffic(node, module.symbols) for node in _running(module)]


def total_of(nodes: Iterable[NodeTraffic]) -> tuple[Traffic, Traffic]:
    """The total traffic of ``nodes``: fused, then unfused."""
    fused = unfused = Traffic()
    for node in nodes:
        fused, unfused = fused + node.fused, unfused + node.unfused
    return fused, unfused


def _running(module: Module) -> Iterator[Node]:
    pending = list(module.graphs.values())
    while pending:
        for node in pending.pop():
            if (not _is_free(node) and not node.regions) or isinstance(node.op, Fused):
                yield node
            else:
                pending += node.regions


def node_traffic(node: Node, symbols: SymbolTable) -> NodeTraffic:
    """The traffic of ``node`` in one run."""
    constants = [v for v in node.inputs if v is not None and is_constant(v)]
    fused = _traffic(node, frozenset(), symbols)
    if isinstance(node.op, TransData):  # comes from the layout pass: the unfused graph has none
        return NodeTraffic(node.location, (), node.sources, fused, Traffic(), 0)
    if not isinstance(node.op, Fused):
        return NodeTraffic(
            node.location, (node.op.name,), node.sources, fused, fused, _bytes(constants, symbols)
        )
    region = region_of(node)
    pairs = zip(region.inputs, node.inputs, strict=True)
    literal = frozenset(inner for inner, outer in pairs if outer is not None and is_constant(outer))
    inside = [inner for inner in region if not _is_free(inner)]
    unfused = sum((_traffic(inner, literal, symbols) for inner in inside), Traffic())
    ops = tuple(inner.op.name for inner in inside)
    return NodeTraffic(node.location, ops, node.sources, fused, unfused, _bytes(constants, symbols))


def _is_free(node: Node) -> bool:
    """Whether ``node`` moves no data: a constant or a view."""
    return node.is_constant or Trait.VIEW in node.op.traits


def _traffic(node: Node, constants: frozenset[Value], symbols: SymbolTable) -> Traffic:
    read = (v for v in node.inputs if v is not None and v not in constants and not is_constant(v))
    return Traffic(_bytes(dict.fromkeys(read), symbols), _bytes(node.outputs, symbols))


def _bytes(values: Iterable[Value], symbols: SymbolTable) -> int:
    return sum(nominal(v.type.bytes, symbols) for v in values if v.type.shape is not None)
