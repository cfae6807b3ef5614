"""Groups for the scopes in the names of nodes; a sequence of equal scopes becomes one group."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from graphwright.records import replace
from graphwright.view.nesting import Nesting, members_of
from graphwright.view.picture import ROOT, GraphPicture, Group

Path = tuple[str, ...]
LEAST_REPEATS = 3
"""The least number of consecutive equal scopes that get a group."""
COMPARED = ("attributes", "reads", "constants", "gives")
"""The facts about nodes that are compared to find equal groups; names are not compared."""
DEEPEST = 32
"""The deepest nesting of scopes: names come from an untrusted model, and may consist only of separators."""


def scope_of(sources: Sequence[str], known: Mapping[str, Path]) -> Path:
    """The innermost scope that contains all of ``sources``: that of ``/block/conv/Conv`` is ``block``,
    ``conv``. ``known`` has the scopes of nodes whose names do not contain them.
    """
    paths = [known.get(source) or _path(source) for source in sources]
    same = takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return tuple(names[0] for names in same)


def _path(name: str) -> Path:
    separator = "/" if "/" in name else "."
    parts = [part for part in name.split(separator) if part]
    if separator == "." and parts and parts[-1].isdigit():  # p2o.Conv.12: an op and a number are not a scope
        return ()
    return tuple(parts[:-1][:DEEPEST])


class Groups:
    """The groups of a picture under construction."""

    def __init__(self, scopes: Mapping[str, Path] | None) -> None:
        """``scopes`` are the scopes of source nodes whose names do not contain them."""
        self._scopes = scopes or {}
        self.groups: list[Group] = [Group("")]
        self._known: dict[tuple[int, str], int] = {}

    def path(self, sources: Sequence[str]) -> Path:
        """The innermost scope that contains all of ``sources``."""
        return scope_of(sources, self._scopes)

    def scope(self, parent: int, path: Path) -> int:
        """The group of a scope inside ``parent``, created if it does not exist."""
        for name in path[:DEEPEST]:
            if (parent, name) not in self._known:
                self._known[parent, name] = self.add(Group(name, parent))
            parent = self._known[parent, name]
        return parent

    def add(self, group: Group) -> int:
        """Adds a group and returns its number."""
        self.groups.append(group)
        return len(self.groups) - 1


def simplified(picture: GraphPicture) -> GraphPicture:
    """``picture`` without groups of a single member, and with consecutive equal groups collected in one
    group.
    """
    return _with_repeats(_without_singles(picture))


def _without_singles(picture: GraphPicture) -> GraphPicture:
    """Replaces each group of one member by this member, except regions, which are nodes themselves. The
    members of a group that is alone at the top level move to the top level.
    """
    groups, counts = picture.groups, [0] * len(picture.groups)
    for node in picture.nodes:
        counts[node.group] += 1
    for number in reversed(range(1, len(groups))):
        counts[groups[number].parent] += counts[number] > 0
    keeps = [counts[number] > (group.node is None) for number, group in enumerate(groups)]
    keeps[ROOT] = True
    number = ROOT
    while counts[number] == 1 and (inside := _only_group(groups, number, counts)) is not None:
        number = inside
        keeps[number] = False
    replaced_by = [ROOT] * len(groups)  # the group that replaces each group
    kept: list[Group] = []
    for number, group in enumerate(groups):
        parent = replaced_by[group.parent]
        if not keeps[number]:
            replaced_by[number] = parent
            continue
        replaced_by[number] = len(kept)
        kept.append(replace(group, parent=parent))
    nodes = tuple(replace(node, group=replaced_by[node.group]) for node in picture.nodes)
    return replace(picture, nodes=nodes, groups=tuple(kept))


def _only_group(groups: Sequence[Group], parent: int, counts: Sequence[int]) -> int | None:
    """The only member of ``parent`` if it is a group; None if it is a node or a region."""
    inside = [k for k in range(1, len(groups)) if groups[k].parent == parent and counts[k]]
    return inside[0] if inside and groups[inside[0]].node is None else None


def _with_repeats(picture: GraphPicture) -> GraphPicture:
    """Moves consecutive equal groups into a new group."""
    shapes, groups = equal_groups(picture), list(picture.groups)
    for parent, members in enumerate(members_of(picture)):
        for run in _runs(members, shapes):
            if parent != ROOT and len(run) == len(members):  # it has no other members
                groups[parent] = replace(groups[parent], repeats=len(run))
                continue
            name = f"{groups[run[0]].name} \N{HORIZONTAL ELLIPSIS} {groups[run[-1]].name}"
            groups.append(Group(name, parent, repeats=len(run)))
            for number in run:
                groups[number] = replace(groups[number], parent=len(groups) - 1)
    return _parents_first(replace(picture, groups=tuple(groups)))


def _runs(members: Sequence[int], shapes: Sequence[int]) -> Iterator[list[int]]:
    """Sequences of consecutive equal groups."""
    run: list[int] = []
    for member in members:
        if run and (member >= 0 or shapes[~member] != shapes[run[-1]]):
            if len(run) >= LEAST_REPEATS:
                yield run
            run = []
        if member < 0:
            run.append(~member)
    if len(run) >= LEAST_REPEATS:
        yield run


def _parents_first(picture: GraphPicture) -> GraphPicture:
    inside: list[list[int]] = [[] for _ in picture.groups]
    for number, group in enumerate(picture.groups):
        if number != ROOT:
            inside[group.parent].append(number)
    order, pending = [], [ROOT]
    while pending:
        order.append(pending.pop())
        pending += reversed(inside[order[-1]])
    new_number = {old: new for new, old in enumerate(order)}
    groups = tuple(replace(picture.groups[k], parent=new_number[picture.groups[k].parent]) for k in order)
    nodes = tuple(replace(node, group=new_number[node.group]) for node in picture.nodes)
    return replace(picture, nodes=nodes, groups=groups)


def equal_groups(picture: GraphPicture) -> list[int]:
    """A number for each group, the same for groups with the same nodes and edges; names are not compared."""
    nesting = Nesting(picture.groups)
    held: list[dict[int, int]] = [{} for _ in picture.groups]  # which of its nodes each one is
    for number, node in enumerate(picture.nodes):
        for group in nesting.around(node.group):
            held[group][number] = len(held[group])
    edges: list[list[tuple[int, int, int]]] = [[] for _ in picture.groups]
    for edge in picture.edges:
        tail, head = picture.nodes[edge.producer].group, picture.nodes[edge.consumer].group
        for group in nesting.around(nesting.common(tail, head)):
            index = held[group]
            edges[group].append((index[edge.producer], index[edge.consumer], edge.value))
    labels = _numbered((n.op, n.layout, *map(n.facts.get, COMPARED)) for n in picture.nodes)
    depths = [nesting.depths[node.group] for node in picture.nodes]
    return _numbered(
        (
            tuple((labels[k], depths[k] - nesting.depths[group]) for k in nodes),
            tuple(sorted(edges[group])),
        )
        for group, nodes in enumerate(held)
    )


def _numbered(things: Iterable[Hashable]) -> list[int]:
    """A number for each item, the same for equal ones."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(thing, len(known)) for thing in things]
