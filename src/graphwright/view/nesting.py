"""Questions about groups inside of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.view.picture import ROOT, GraphPicture, Group


class Nesting:
    """Which group is in which."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.parents = [group.parent for group in groups]
        self.depths = [0] * len(groups)
        for number in range(1, len(groups)):
            self.depths[number] = self.depths[self.parents[number]] + 1

    def around(self, group: int) -> Iterator[int]:
        """``group`` and those that it is in, innermost first, without the root."""
        while group != ROOT:
            yield group
            group = self.parents[group]

    def common(self, first: int, second: int) -> int:
        """The innermost group that both are in, or are."""
        while first != second:
            if self.depths[first] >= self.depths[second]:
                first = self.parents[first]
            else:
                second = self.parents[second]
        return first


def members_of(picture: GraphPicture) -> list[list[int]]:
    """What each group holds, in the order of the first node of each: nodes by number, groups by the
    complement (``~number``) of theirs.
    """
    nesting = Nesting(picture.groups)
    members: list[dict[int, None]] = [{} for _ in picture.groups]
    for number, node in enumerate(picture.nodes):
        members[node.group][number] = None
        for group in nesting.around(node.group):
            members[nesting.parents[group]][~group] = None
    return list(map(list, members))
