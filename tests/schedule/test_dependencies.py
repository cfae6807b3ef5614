"""Edges between tasks: what must wait, what need not, and streams."""

from __future__ import annotations

from random import Random

import pytest

from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.types import F32, tensor
from graphwright.kernels.launch import Run, SelectedNode
from graphwright.ops.core.binary import Add
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.unary import Neg, Relu
from graphwright.schedule.dependencies import Access, Hazards
from graphwright.schedule.streams import assign_streams


def edges(*tasks: tuple[int, list[Access]]) -> list[tuple[int, ...]]:
    """The dependencies of each of ``(stream, accesses)``."""
    hazards = Hazards()
    return [hazards.add(index, stream, accesses) for index, (stream, accesses) in enumerate(tasks)]


def read(buffer: int, part: int = 0) -> Access:
    return Access(buffer, part, writes=False)


def write(buffer: int, part: int = 0) -> Access:
    return Access(buffer, part, writes=True)


def test_reads_wait_for_writes_and_writes_for_both() -> None:
    made = edges((0, [write(1)]), (1, [read(1)]), (2, [read(1)]), (3, [write(1)]), (4, [read(1)]))
    assert made == [(), (0,), (0,), (0, 1, 2), (3,)]


def test_tasks_of_a_stream_need_no_edges_between_them() -> None:
    assert edges((0, [write(1)]), (0, [write(2)]), (1, [write(3)])) == [(), (0,), ()]


def test_a_reader_of_the_whole_waits_for_writers_of_all_parts() -> None:
    made = edges((0, [write(1, 0)]), (1, [write(1, 64)]), (2, [write(1, 0)]), (3, [read(1, 0)]))
    assert made == [(), (), (0,), (1, 2)]


def test_a_part_written_after_the_whole_was_read_waits_for_the_readers() -> None:
    made = edges((0, [write(1, 0)]), (1, [read(1, 0)]), (2, [write(1, 64)]))
    assert made == [(), (0,), (0, 1)]


def test_a_task_does_not_wait_for_itself() -> None:
    assert edges((0, [read(1), write(1)]), (1, [read(1), write(1)])) == [(), (0,)]


@pytest.mark.parametrize("seed", range(40))
def test_exactly_the_conflicting_tasks_are_ordered(seed: int) -> None:
    """A path of edges orders every pair of accesses that must not be swapped."""
    random = Random(seed)
    tasks = [
        (
            random.randrange(3),
            [Access(random.randrange(3), random.choice((0, 64)), random.random() < 0.5) for _ in range(2)],
        )
        for _ in range(12)
    ]
    made = edges(*tasks)
    before: list[set[int]] = []
    for after in made:
        before.append(set(after).union(*(before[a] for a in after)))
    for late, (_, accesses) in enumerate(tasks):
        for early in range(late):
            for a in tasks[early][1]:
                for b in accesses:
                    disjoint = a.writes and b.writes and a.part != b.part
                    if a.buffer == b.buffer and (a.writes or b.writes) and not disjoint:
                        assert early in before[late], (early, late)


@pytest.mark.parametrize(("count", "streams"), [(1, {0}), (2, {0, 1})])
def test_independent_branches_get_streams_of_their_own(count: int, streams: set[int]) -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 4))])
    left, right = b(Relu(), b(Exp(), x)), b(Exp(), b(Neg(), x))
    module.main.set_outputs([b(Add(), left, right)])
    steps = [SelectedNode(node, Run(())) for node in module.main]
    found = assign_streams(steps, count)
    assert set(found.values()) == streams
    assert found[left.producer] == found[left.producer.inputs[0].producer]
