"""A program compiled for measurement, and the correspondence of its tasks to those of another one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.cost.choices import Choice
from graphwright.ir.graph import Module
from graphwright.records import dataclass
from graphwright.tuning.paired_timing import ChangedTasks, Timed

_MARK: Final = "\x1f"
"""Delimits the number of a node in the names of its sources; names of models never contain it."""
_NUMBER: Final = re.compile(f"{_MARK}(\\d+){_MARK}")


def number_nodes(module: Module) -> None:
    """Numbers the nodes in their sources, so that the names of tasks contain the numbers of the nodes they
    compute.
    """
    for number, node in enumerate(module.walk()):
        node.sources = (*node.sources, f"{_MARK}{number}{_MARK}")


def numbers_in(texts: Iterable[str]) -> frozenset[int]:
    """The numbers of nodes in ``texts``, which are sources of nodes or names of tasks."""
    return frozenset(int(number) for text in texts for number in _NUMBER.findall(text))


@dataclass(frozen=True)
class Trial:
    """A program compiled for measurement. ``nodes`` are the numbers of the nodes that each task computes."""

    timed: Timed
    nodes: Sequence[frozenset[int]]
    choices: Sequence[Choice]

    def tasks_of(self, numbers: frozenset[int]) -> list[int]:
        """The tasks that compute any of these nodes."""
        return [task for task, nodes in enumerate(self.nodes) if not nodes.isdisjoint(numbers)]

    @property
    def whole(self) -> list[int]:
        """All tasks."""
        return list(range(len(self.nodes)))


def closure(before: Trial, after: Trial, numbers: frozenset[int]) -> frozenset[int]:
    """``numbers`` extended by the nodes that a kernel of either program computes together with them, so that
    both programs have tasks for exactly these nodes.
    """
    reached: frozenset[int] = frozenset()
    while reached != numbers:
        reached = numbers
        for nodes in (*before.nodes, *after.nodes):
            if not nodes.isdisjoint(numbers):
                numbers |= nodes
    return reached


def part_of(before: Trial, after: Trial, numbers: frozenset[int]) -> ChangedTasks:
    """The tasks of both programs for the nodes ``numbers``, which are a :func:`closure`."""
    return ChangedTasks(before.tasks_of(numbers), after.tasks_of(numbers))
