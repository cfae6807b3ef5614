"""Partitions a graph into nodes that the host has to run and as few programs between them as
possible.

A size that the host found is bound for the programs after it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from graphwright.compiler.host_nodes import bound_by, bound_symbols, host_nodes
from graphwright.ir.free_symbols import symbols_of
from graphwright.ir.graph import Graph, Node
from graphwright.records import dataclass


class GroupKind(enum.IntEnum):
    """The runner of a group. Groups of one round run in this order."""

    HOST = 0
    PROGRAM = 1
    UNRANKED = 2
    """A program that reads a value of unknown rank: it is compiled at run time."""


@dataclass(frozen=True)
class Group:
    """Nodes that run together: a program, or nodes that the host runs one by one."""

    kind: GroupKind
    nodes: tuple[Node, ...]
    device: str = ""
    """The device that the program is placed on; empty for the default."""


@dataclass(frozen=True)
class Partition:
    """The groups in execution order, and for each host node the reason."""

    groups: tuple[Group, ...]
    reasons: dict[Node, str]
    is_whole: bool
    """Whether one program runs the whole graph."""


def device_of(node: Node) -> str:
    """The device that ``node`` and its regions are placed on; empty for the default."""
    return node.outputs[0].device if node.outputs else ""


def is_placed(graph: Graph) -> bool:
    """Whether a node is placed on a device other than the default."""
    return any(device_of(node) for node in graph)


def partition(graph: Graph, bound: Iterable[str] = (), given: Mapping[Node, str] | None = None) -> Partition:
    """Partitions ``graph``, in which the sizes ``bound`` are known from the enclosing graph. ``given`` maps
    further nodes that the host has to run to the reason.

    Each node runs in the earliest round possible: host nodes wait for programs, programs wait for host nodes.
    So between two host nodes on a path there is at most one program.
    """
    reasons = host_nodes(graph, bound, given or {})
    definers = _definers(reasons, bound_by(graph.inputs, bound))
    devices = list(dict.fromkeys(map(device_of, graph)))
    rounds: dict[Node, _Slot] = {}
    for node in graph:
        if node.is_constant:
            continue
        kind = _kind(node, reasons)
        runner = kind, 0 if kind is GroupKind.HOST else devices.index(device_of(node))
        before = [v.producer for v in node.inputs if v is not None and v.producer is not None]
        if definers:
            before += [definers[name] for name in symbols_of(node) if definers.get(name, node) is not node]
        earliest = (_after(rounds[each], runner) for each in before if each in rounds)
        rounds[node] = max(earliest, default=0), runner
    slots: dict[_Slot, list[Node]] = {}
    for node, slot in rounds.items():
        slots.setdefault(slot, []).append(node)
    groups = tuple(
        Group(kind, tuple(nodes), "" if kind is GroupKind.HOST else devices[device])
        for (_, (kind, device)), nodes in sorted(slots.items(), key=lambda item: item[0])
    )
    whole = all(group.kind is GroupKind.PROGRAM and not group.device for group in groups) and _is_plain(graph)
    return Partition(groups, reasons, whole)


_Runner = tuple[GroupKind, int]
"""The runner of a node: its kind, and the number of the device."""
_Slot = tuple[int, _Runner]
"""A round, and what runs in it."""


def _is_plain(graph: Graph) -> bool:
    """Whether a program can take the inputs and return the outputs of ``graph``."""
    types = [value.type for value in (*graph.inputs, *graph.outputs)]
    return all(type.dtype.bits and type.shape is not None for type in types)


def _after(slot: _Slot, follower: _Runner) -> int:
    """The first round in which ``follower`` can use a result computed in ``slot``."""
    return slot[0] + (slot[1] > follower)


def _kind(node: Node, reasons: dict[Node, str]) -> GroupKind:
    if node in reasons:
        return GroupKind.HOST
    return (
        GroupKind.UNRANKED
        if any(v is not None and v.type.shape is None for v in node.inputs)
        else GroupKind.PROGRAM
    )


def _definers(reasons: dict[Node, str], bound: set[str]) -> dict[str, Node]:
    """The node that defines each data-dependent size: the first in graph order, as later nodes inherit the
    symbol.
    """
    definers: dict[str, Node] = {}
    for node in reasons:
        for value in node.outputs:
            for name in bound_symbols(value.type):
                if name not in bound:
                    definers.setdefault(name, node)
    return definers
