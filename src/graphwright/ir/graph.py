"""Modules, graphs, nodes and values: mutable structure, immutable contents.

A graph changes only through its methods (insert, erase, replace_input, replace_all_uses, move), which
maintain use lists. Regions capture nothing: outer values are passed to them as operands of the node.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.op import ConstRef, Op, Trait
from graphwright.ir.origin import Origin
from graphwright.ir.symbols import Dim, SymbolTable, product
from graphwright.ir.types import Layout, Shape, TensorType
from graphwright.records import dataclass, field

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # of typing itself from Python 3.13 on

    OpT = TypeVarWithDefault("OpT", bound=Op, default=Op, covariant=True)
else:
    OpT = TypeVar("OpT")


@dataclass(eq=False)
class Value:
    """A value of a graph: output ``index`` of ``producer``, or input ``index`` of the graph ``owner``."""

    type: TensorType
    name: str = ""
    layout: Layout | None = None
    """None is row-major; only TransData creates other layouts."""
    device: str = ""
    """Empty is the default device."""
    producer: Node | None = None
    owner: Graph | None = None
    index: int = 0
    uses: dict[tuple[Node, int], None] = field(default_factory=dict, repr=False)
    """Readers as (node, input position), in order of insertion. Graph outputs are not included."""

    @property
    def graph(self) -> Graph | None:
        """The graph that contains the value."""
        return self.producer.graph if self.producer else self.owner

    @property
    def users(self) -> list[Node]:
        """The nodes that read the value, each once."""
        return list(dict.fromkeys(node for node, _ in self.uses))

    @property
    def is_output(self) -> bool:
        """Whether the value is an output of its graph."""
        graph = self.graph
        return graph is not None and self in graph.outputs

    @property
    def is_used(self) -> bool:
        """Whether a node reads the value, or it is an output of its graph."""
        return bool(self.uses) or self.is_output

    @property
    def memory_shape(self) -> Shape:
        """The shape of the array in memory, which follows from shape and layout."""
        return self.type.dims if self.layout is None else self.layout.physical_shape(self.type.dims)

    @property
    def bytes(self) -> Dim:
        """Bytes in memory, including padding of blocks."""
        return product(self.memory_shape) * self.type.dtype.bytes

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class Node(Generic[OpT]):
    """One application of an op. Create with :meth:`Graph.append` or :meth:`Graph.insert`.

    ``Node[Conv]`` is a node whose op is known to be a convolution, ``Node`` one of any op.
    """

    __slots__ = (
        "graph", "inferred", "inputs", "name", "next", "op", "origin", "outputs", "previous", "regions",
        "sources",
    )  # fmt: skip

    def __init__(
        self,
        op: OpT,
        inputs: Sequence[Value | None],
        types: Sequence[TensorType],
        regions: Sequence[Graph] = (),
        name: str = "",
        sources: Sequence[str] = (),
        origin: Origin | None = None,
    ) -> None:
        self.op = op
        self.inputs: tuple[Value | None, ...] = tuple(inputs)
        self.outputs: tuple[Value, ...] = tuple(Value(t, producer=self, index=i) for i, t in enumerate(types))
        self.regions: tuple[Graph, ...] = tuple(regions)
        self.name = name
        self.sources: tuple[str, ...] = tuple(dict.fromkeys(sources))
        """Names of the nodes of the source model that this node came from."""
        self.origin = origin
        """The op that the node was decomposed from. Not part of the text format."""
        self.graph: Graph | None = None
        self.previous: Node | None = None
        self.next: Node | None = None
        self.inferred: object = None
        """Cache of type inference; see :mod:`graphwright.ir.inference.cache`."""

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    @property
    def location(self) -> str:
        """The name of the node in errors and reports: its source nodes, or its own name."""
        return " + ".join(self.sources) or self.name or self.op.name

    @property
    def is_constant(self) -> bool:
        """Whether the node is a Constant, and computes nothing."""
        return Trait.CONSTANT in self.op.traits

    def operand(self, index: int) -> Value:
        """Input ``index``. Raises ValueError if it is absent."""
        value = self.inputs[index]
        if value is None:
            raise ValueError(f"input {index} of {self.location} is absent")
        return value

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.location}>"


def sources_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The source nodes that ``nodes`` come from, each once."""
    return tuple(dict.fromkeys(source for node in nodes for source in node.sources))


class Graph:
    """Inputs, a list of nodes in topological order, and outputs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._output_names: tuple[str, ...] = ()
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0

    def add_input(self, type: TensorType, name: str = "") -> Value:
        """Appends an input."""
        value = Value(type, name, owner=self, index=len(self.inputs))
        self.inputs.append(value)
        return value

    def remove_input(self, index: int) -> None:
        """Removes an input that has no uses."""
        value = self.inputs[index]
        if value.uses or value in self._outputs:
            raise ValueError(f"input {value!r} of {self.name} is in use")
        del self.inputs[index]
        for i, later in enumerate(self.inputs):
            later.index = i

    @property
    def outputs(self) -> tuple[Value, ...]:
        return tuple(self._outputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs for callers. They stay the same if other values replace the outputs."""
        return tuple(
            name or value.name for name, value in zip(self._output_names, self._outputs, strict=True)
        )

    def set_outputs(self, values: Sequence[Value], names: Sequence[str] = ()) -> None:
        """Replaces the outputs. Their names are ``names``, or the current names of the values."""
        if names and len(names) != len(values):
            raise ValueError(f"{len(names)} names for {len(values)} outputs")
        self._outputs = list(values)
        self._output_names = tuple(names) or tuple(value.name for value in values)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Node]:
        """The nodes in order. While iterating, the current node can be erased, and nodes inserted."""
        node = self._first
        while node is not None:
            following = node.next
            yield node
            node = following if node.graph is None else node.next

    def __reversed__(self) -> Iterator[Node]:
        node = self._last
        while node is not None:
            before = node.previous
            yield node
            node = before

    def append(self, node: Node) -> Node:
        """Adds ``node`` at the end."""
        return self.insert(node, None)

    def insert(self, node: Node, before: Node | None) -> Node:
        """Adds ``node`` before the node ``before``, or at the end. Adds a use to each operand."""
        if node.graph is not None:
            raise ValueError(f"{node!r} is already in a graph")
        self._link(node, before)
        for position, value in enumerate(node.inputs):
            if value is not None:
                value.uses[node, position] = None
        return node

    def erase(self, node: Node) -> None:
        """Removes a node whose outputs have no uses. Removes its use of each operand."""
        for output in node.outputs:
            if output.uses or output in self._outputs:
                raise ValueError(f"{output!r} of {node!r} is in use")
        self._unlink(node)
        for position, value in enumerate(node.inputs):
            if value is not None:
                value.uses.pop((node, position), None)

    def move(self, node: Node, before: Node | None) -> None:
        """Moves ``node`` before the node ``before``, or to the end."""
        if node is before:
            return
        self._unlink(node)
        self._link(node, before)

    def replace_input(self, node: Node, index: int, value: Value | None) -> None:
        """Replaces input ``index`` of ``node`` by ``value``."""
        old = node.inputs[index]
        if old is not None:
            old.uses.pop((node, index), None)
        node.inputs = (*node.inputs[:index], value, *node.inputs[index + 1 :])
        if value is not None:
            value.uses[node, index] = None

    def add_operand(self, node: Node, value: Value) -> None:
        """Appends ``value`` to the inputs of ``node``."""
        value.uses[node, len(node.inputs)] = None
        node.inputs = (*node.inputs, value)

    def remove_operand(self, node: Node, index: int) -> None:
        """Removes input ``index`` of ``node``; later inputs move up."""
        for position, value in enumerate(node.inputs):
            if value is not None:
                value.uses.pop((node, position), None)
        node.inputs = (*node.inputs[:index], *node.inputs[index + 1 :])
        for position, value in enumerate(node.inputs):
            if value is not None:
                value.uses[node, position] = None

    def replace_all_uses(self, old: Value, new: Value) -> None:
        """Replaces ``old`` by ``new`` in every reader and in the outputs. An unnamed ``new`` takes over the
        name.
        """
        if old is new:
            return
        for node, index in list(old.uses):
            self.replace_input(node, index, new)
        self._outputs = [new if value is old else value for value in self._outputs]
        if not new.name:
            new.name = old.name

    def replace_node(self, node: Node, values: Sequence[Value]) -> None:
        """Replaces the outputs of ``node`` by ``values``, adds its source names to their producers, and
        erases it.

        Producers without operands (constants) do not get source names.
        """
        for old, new in zip(node.outputs, values, strict=True):
            self.replace_all_uses(old, new)
            if new.producer is not None and new.producer is not node and new.producer.inputs:
                new.producer.sources = tuple(dict.fromkeys((*new.producer.sources, *node.sources)))
        self.erase(node)

    def sort(self) -> None:
        """Sorts nodes topologically, stable otherwise. The graph must be acyclic."""
        placed: set[Node] = set()
        for node in list(self):
            pending = [node]
            while pending:
                waiting = [v.producer for v in pending[-1].inputs if v is not None and v.producer is not None]
                waiting = [p for p in waiting if p.graph is self and p not in placed]
                if waiting and pending[-1] not in placed:
                    pending.append(waiting[0])
                    continue
                ready = pending.pop()
                if ready not in placed:
                    placed.add(ready)
                    self.move(ready, None)

    def walk(self) -> Iterator[Node]:
        """All nodes; nodes of regions follow their owner."""
        pending = [iter(self)]
        while pending:
            node = next(pending[-1], None)
            if node is None:
                pending.pop()
                continue
            yield node
            if node.regions:
                pending += [iter(region) for region in reversed(node.regions)]

    def _link(self, node: Node, before: Node | None) -> None:
        if before is not None and before.graph is not self:
            raise ValueError(f"{before!r} is not in {self.name}")
        previous = before.previous if before is not None else self._last
        node.graph, node.previous, node.next = self, previous, before
        if previous is not None:
            previous.next = node
        else:
            self._first = node
        if before is not None:
            before.previous = node
        else:
            self._last = node
        self._count += 1

    def _unlink(self, node: Node) -> None:
        if node.graph is not self:
            raise ValueError(f"{node!r} is not in {self.name}")
        if node.previous is not None:
            node.previous.next = node.next
        else:
            self._first = node.next
        if node.next is not None:
            node.next.previous = node.previous
        else:
            self._last = node.previous
        node.graph = None
        self._count -= 1


class Role(enum.StrEnum):
    """The role of an entry input."""

    DATA = "data"
    STATE = "state"
    SIZES = "sizes"
    """The dims of all other inputs in order, as i64. The runtime feeds it, never the caller."""


@dataclass(frozen=True)
class Signature:
    """The roles of the inputs of an entry, and its states."""

    roles: tuple[Role, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    """Pairs of output and input positions: the output is the next value of the state that the input is."""
    initial_values: tuple[tuple[int, ConstRef], ...] = ()
    """The initial values of states, by input position. Other states are zero at first."""


class Module:
    """Named graphs (entries and bodies), a constant pool, a symbol table, and signatures of the entries."""

    def __init__(self) -> None:
        self.graphs: dict[str, Graph] = {}
        self.constants = ConstantPool()
        self.symbols = SymbolTable()
        self.signatures: dict[str, Signature] = {}
        self.metadata: dict[str, str] = {}
        """Metadata of the source model, such as a version."""
        self.hints: dict[str, str] = {}
        """Fusion hints by source node; see ``ir/hints.py``."""
        self.scopes: dict[str, tuple[str, ...]] = {}
        """For each source node, the path of PyTorch modules that contain it, outermost first, if the exporter
        recorded it. Not part of the text format or of packages.
        """

    def add_graph(self, graph: Graph) -> Graph:
        """Adds a graph under its name, which must be unique."""
        if graph.name in self.graphs:
            raise ValueError(f"a graph called {graph.name!r} already exists")
        self.graphs[graph.name] = graph
        return graph

    @property
    def main(self) -> Graph:
        """The entry called ``main``."""
        return self.graphs["main"]

    def state_updates(self) -> dict[int, int]:
        """For each output of the entry that is the next value of a state, the input that is the state, by
        position.
        """
        signature = self.signatures.get("main")
        return dict(signature.aliases) if signature is not None else {}

    def initial_states(self) -> dict[int, ConstRef]:
        """The initial values of states, by input position. Other states are zero at first."""
        signature = self.signatures.get("main")
        return dict(signature.initial_values) if signature is not None else {}

    def set_outputs(
        self,
        outputs: Mapping[str, Value],
        nexts: Mapping[Value, Value],
        initial_values: Mapping[Value, ConstRef] | None = None,
    ) -> None:
        """Sets the outputs of the entry, by name, and its states.

        ``nexts`` maps inputs that are states to their next values. ``initial_values`` maps states to initial
        values other than zero.
        """
        names = [*outputs, *(f"next {state.name}" for state in nexts)]
        self.main.set_outputs([*outputs.values(), *nexts.values()], names)
        roles = tuple(Role.STATE if value in nexts else Role.DATA for value in self.main.inputs)
        aliases = tuple((len(outputs) + k, state.index) for k, state in enumerate(nexts))
        initial = tuple((state.index, ref) for state, ref in (initial_values or {}).items())
        self.signatures["main"] = Signature(roles, aliases, initial)

    def walk(self) -> Iterator[Node]:
        """All nodes of all graphs."""
        for graph in self.graphs.values():
            yield from graph.walk()
