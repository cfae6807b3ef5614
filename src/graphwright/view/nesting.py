"""Queries about nested groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.view.picture import ROOT, GraphPicture, Group


class Nesting:
    """The nesting of groups."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.parents = [group.parent for group in groups]
        self.depths = [0] * len(groups)
        for number in range(1, len(groups)):
            self.depths[number] = self.depths[self.parents[number]] + 1

    def around(self, group: int) -> Iterator[int]:
        """``group`` and the groups around it, innermost first, without the root."""
        while group != ROOT:
            yield group
            group = self.parents[group]

    def common(self, first: int, second: int) -> int:
        """The innermost group that contains both, or is one of them."""
        while first != second:
            if self.depths[first] >= self.depths[second]:
                first = self.parents[first]
            else:
                second = self.parents[second]
        return first


def members_of(picture: GraphPicture) -> list[list[int]]:
    """The members of each group, ordered by their first nodes. A node is represented by its number, a group
    by the complement (``~number``) of its number.
    """
    nesting = Nesting(picture.groups)
    members: list[dict[int, None]] = [{} for _ in picture.groups]
    for number, node in enumerate(picture.nodes):
        members[node.group][number] = None
        for group in nesting.around(node.group):
            members[nesting.parents[group]][~group] = None
    return list(map(list, members))
