"""Partitions a graph into nodes that the host has to run, and as few programs between them as there can be.

A program is planned from the shapes of its inputs. So the host runs what makes sizes out of elements, values
without bytes of their own (strings, sequences), ranks that are not known before a run, and control flow that
holds such nodes. A size that the host found is bound for the programs behind it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphwright.ir.constant import Constant
from graphwright.ir.free_symbols import symbols_in, symbols_of
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.types import TensorType
from graphwright.kernels.native_loop import why_not_native
from graphwright.records import dataclass


class Kind(enum.IntEnum):
    """What runs a group; groups of one round run in this order."""

    HOST = 0
    PROGRAM = 1
    OPEN = 2
    """It reads a value of unknown rank: it is compiled when that is known."""


@dataclass(frozen=True)
class Group:
    """Nodes that run together: those of a program, or nodes that the host runs one after the other."""

    kind: Kind
    nodes: tuple[Node, ...]
    device: str = ""
    """What the nodes of a program were placed on; empty: the default."""


@dataclass(frozen=True)
class Partition:
    """Groups in order, and why the host runs what it runs."""

    groups: tuple[Group, ...]
    reasons: dict[Node, str]
    is_whole: bool
    """Whether one program runs it all."""


def device_of(node: Node) -> str:
    """What ``node`` was placed on, with the nodes of its regions; empty: the default."""
    return node.outputs[0].device if node.outputs else ""


def is_placed(graph: Graph) -> bool:
    """Whether some node was placed on a device."""
    return any(device_of(node) for node in graph)


def partition(graph: Graph, bound: Iterable[str] = (), given: Mapping[Node, str] | None = None) -> Partition:
    """Partition ``graph``, for which the sizes ``bound`` are known from without. ``given``: further nodes
    that the host has to run, and why.

    A node runs in the first round that it can: a host's nodes wait for programs, a program for nodes of the
    host, and so what runs between two nodes of the host on a path is one program at most.
    """
    reasons = _reasons(graph, bound, given or {})
    makers = _makers(reasons, bound_by(graph.inputs, bound))
    devices = list(dict.fromkeys(map(device_of, graph)))
    rounds: dict[Node, _Turn] = {}
    for node in graph:
        if isinstance(node.op, Constant):
            continue
        kind = _kind(node, reasons)
        place = kind, 0 if kind is Kind.HOST else devices.index(device_of(node))
        before = [v.producer for v in node.inputs if v is not None and v.producer is not None]
        if makers:
            before += [makers[name] for name in symbols_of(node) if makers.get(name, node) is not node]
        earliest = (_after(rounds[each], place) for each in before if each in rounds)
        rounds[node] = max(earliest, default=0), place
    turns: dict[_Turn, list[Node]] = {}
    for node, turn in rounds.items():
        turns.setdefault(turn, []).append(node)
    groups = tuple(
        Group(kind, tuple(nodes), "" if kind is Kind.HOST else devices[device])
        for (_, (kind, device)), nodes in sorted(turns.items(), key=lambda item: item[0])
    )
    whole = all(group.kind is Kind.PROGRAM and not group.device for group in groups) and _is_plain(graph)
    return Partition(groups, reasons, whole)


_Place = tuple[Kind, int]
"""What runs a node: the number of the device as well."""
_Turn = tuple[int, _Place]
"""A round, and what runs in it."""


def _is_plain(graph: Graph) -> bool:
    """Whether a program can take the inputs of ``graph`` and give its outputs."""
    types = [value.type for value in (*graph.inputs, *graph.outputs)]
    return all(type.dtype.bits and type.shape is not None for type in types)


def _after(turn: _Turn, follower: _Place) -> int:
    """The first round in which what was made in ``turn`` is there for what runs at ``follower``."""
    return turn[0] + (turn[1] > follower)


def _kind(node: Node, reasons: dict[Node, str]) -> Kind:
    if node in reasons:
        return Kind.HOST
    return Kind.OPEN if any(v is not None and v.type.shape is None for v in node.inputs) else Kind.PROGRAM


def bound_by(values: Iterable[Value], bound: Iterable[str]) -> set[str]:
    """``bound`` and the sizes that the shapes of ``values`` tell."""
    return {*bound, *(name for value in values for name in told_by(value.type))}


def told_by(type: TensorType) -> Iterator[str]:
    """Symbols whose numbers a shape of ``type`` tells."""
    for dim in type.shape or ():
        scaled = scaled_symbol(dim)
        if scaled is not None:
            yield scaled[0]


def _makers(reasons: dict[Node, str], bound: set[str]) -> dict[str, Node]:
    """The node that makes each size: the first, as the others took it over."""
    makers: dict[str, Node] = {}
    for node in reasons:
        for value in node.outputs:
            for name in told_by(value.type):
                if name not in bound:
                    makers.setdefault(name, node)
    return makers


# -- what the host runs ---------------------------------------------------------------------------------


def _reasons(graph: Graph, bound: Iterable[str], given: Mapping[Node, str]) -> dict[Node, str]:
    """Nodes of ``graph`` that the host runs, in order, each with the reason."""
    known = bound_by(graph.inputs, bound)
    reasons: dict[Node, str] = {}
    for node in graph:
        reason = given.get(node) or _reason(node, known)
        if reason:
            reasons[node] = reason
            known = bound_by(node.outputs, known)
    return reasons


def _reason(node: Node, known: set[str]) -> str:
    """Why the host has to run ``node``, given the sizes that are ``known``; empty if it has not to."""
    return (
        "" if isinstance(node.op, Constant) else next(filter(None, (why(node, known) for why in _WHYS)), "")
    )


def _holds_no_bytes(node: Node, known: set[str]) -> str:
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    kinds = dict.fromkeys(v.type.dtype.kind for v in values if not v.type.dtype.bits)
    return (
        f"it works on values that are no tensors of fixed-size elements: {', '.join(kinds)}" if kinds else ""
    )


def _makes_sizes(node: Node, known: set[str]) -> str:
    made = sorted(symbols_in(value.type for value in node.outputs) - known)
    return f"the values of a tensor determine the size {', '.join(made)}" if made else ""


def _makes_rank(node: Node, known: set[str]) -> str:
    if any(value is not None and value.type.shape is None for value in node.inputs):
        return ""  # it may follow from theirs
    return (
        "the values of a tensor determine the rank" if any(v.type.shape is None for v in node.outputs) else ""
    )


def _holds_such(node: Node, known: set[str]) -> str:
    for region in node.regions:
        for inner, reason in _reasons(region, known, {}).items():
            return f"its body has {inner.place}: {reason}"
    return ""


_WHYS: Sequence[Callable[[Node, set[str]], str]] = (
    _holds_no_bytes,
    _makes_sizes,
    _makes_rank,
    why_not_native,
    _holds_such,
)
