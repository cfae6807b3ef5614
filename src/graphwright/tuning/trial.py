"""A program that was compiled to be measured, and how its tasks correspond to those of another one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.cost.choices import Choice
from graphwright.ir.graph import Module
from graphwright.records import dataclass
from graphwright.tuning.pair import Part, Timed

_MARK: Final = "\x1f"
"""Around the number of a node among its sources: no name of a model holds it."""
_NUMBER: Final = re.compile(f"{_MARK}(\\d+){_MARK}")


def number_nodes(module: Module) -> None:
    """Let the sources of each node name it by a number, which the tasks that compute it then carry."""
    for number, node in enumerate(module.walk()):
        node.sources = (*node.sources, f"{_MARK}{number}{_MARK}")


def numbers_in(texts: Iterable[str]) -> frozenset[int]:
    """The nodes that ``texts``, sources or names of tasks, tell of."""
    return frozenset(int(number) for text in texts for number in _NUMBER.findall(text))


@dataclass(frozen=True)
class Trial:
    """``nodes``: the numbers of the nodes that each task computes."""

    timed: Timed
    nodes: Sequence[frozenset[int]]
    choices: Sequence[Choice]

    def tasks_of(self, numbers: frozenset[int]) -> list[int]:
        """The tasks that compute some of these nodes."""
        return [task for task, nodes in enumerate(self.nodes) if not nodes.isdisjoint(numbers)]

    @property
    def whole(self) -> list[int]:
        """All tasks."""
        return list(range(len(self.nodes)))


def closure(before: Trial, after: Trial, numbers: frozenset[int]) -> frozenset[int]:
    """``numbers`` and the nodes that some kernel of either program computes together with them, so that both
    programs have tasks for just these."""
    reached: frozenset[int] = frozenset()
    while reached != numbers:
        reached = numbers
        for nodes in (*before.nodes, *after.nodes):
            if not nodes.isdisjoint(numbers):
                numbers |= nodes
    return reached


def part_of(before: Trial, after: Trial, numbers: frozenset[int]) -> Part:
    """The tasks of both for a :func:`closure`."""
    return Part(before.tasks_of(numbers), after.tasks_of(numbers))
