"""The least memory that a task list can do with, on cases that can be counted by hand."""

from __future__ import annotations

from graphwright.low_ir.tasks import Block, Operand, Task, TaskKind
from graphwright.memory.liveness import live_bytes


def task(*buffers: int, scratch: int = -1, blocks: tuple[int, ...] = ()) -> Task:
    kind = TaskKind.IF if blocks else TaskKind.LAUNCH
    return Task(kind, tuple(Operand(b, 0) for b in buffers), scratch=scratch, blocks=blocks)


def test_two_neighbors_of_a_chain_are_live_at_once() -> None:
    tasks = [task(0), task(0, 1), task(1, 2), task(2, 3)]
    assert live_bytes({0: 10, 1: 20, 2: 5, 3: 40}, tasks, [Block(0, 4)]) == 45


def test_a_residual_stays_live_until_it_is_added() -> None:
    tasks = [task(0), task(0, 1), task(1, 2), task(0, 2, 3)]
    assert live_bytes({0: 100, 1: 1, 2: 2, 3: 4}, tasks, [Block(0, 4)]) == 106


def test_scratch_lives_in_its_task() -> None:
    tasks = [task(0, scratch=7), task(0, 1)]
    assert live_bytes({0: 1, 1: 2, 7: 50}, tasks, [Block(0, 2)]) == 51


def test_only_the_larger_branch_counts() -> None:
    tasks = [task(0, 9), task(0, blocks=(1, 2)), task(9), task(1, 9), task(1, 9), task(2, 9), task(2, 9)]
    blocks = [Block(0, 3), Block(3, 2), Block(5, 2)]
    assert live_bytes({0: 1, 1: 30, 2: 40, 9: 5}, tasks, blocks) == 45


def test_weights_inputs_and_outputs_do_not_count() -> None:
    assert live_bytes({}, [task(0), task(0, 1)], [Block(0, 2)]) == 0


def test_operands_and_loop_carried_values_live_through_the_whole_loop() -> None:
    loop = Task(TaskKind.LOOP, (Operand(9, 0), None, None), (0,), args=(0,), blocks=(1,))
    tasks = [task(0), task(4), loop, task(5), task(0, 1), task(1, 2), task(2, 4)]
    sizes = {0: 100, 1: 20, 2: 30, 4: 4, 5: 1000, 9: 1}
    blocks = [Block(0, 4), Block(4, 3)]
    assert live_bytes(sizes, tasks, blocks) == 1000
    assert live_bytes({**sizes, 5: 0}, tasks, blocks) == 100 + 4 + 1 + 20 + 30
