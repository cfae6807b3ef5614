"""The checker against the planner, and against plans and programs broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest

from graphwright.low_ir.tasks import (
    Block,
    Buffer,
    Code,
    FunctionOperand,
    Instruction,
    Operand,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from graphwright.memory.checker.check import check_plan

from .programs import PLANNED, Drafter, planned


@pytest.mark.parametrize("seed", range(150))
def test_the_planner_satisfies_the_checker(seed: int) -> None:
    random, threads = Random(seed), 1 + seed % 3
    program = Drafter(random, 1 + seed % 4).program(random.randrange(12))
    assert check_plan(program, planned(program, threads), threads) == []


@pytest.mark.parametrize("seed", range(60))
def test_operands_of_one_task_that_share_bytes(seed: int) -> None:
    random = Random(seed)
    program = Drafter(random, 1 + seed % 3).program(8)
    plan = planned(program, 2)
    pairs = [
        (a, b) for t in range(len(program.tasks)) for a, b in combinations(sorted(live_in(program, t)), 2)
    ]
    pairs = [(a, b) for a, b in pairs if plan["sizes"][a] and plan["sizes"][b]]
    if not pairs:
        return
    a, b = random.choice(pairs)
    broken = {**plan, "offsets": list(plan["offsets"]), "arena": 10**6}
    broken["offsets"][a] = broken["offsets"][b]
    assert any("share bytes" in fault for fault in check_plan(program, broken, 2))


def live_in(program: TaskGraph, index: int) -> set[int]:
    """Planned buffers that one task touches."""
    task = program.tasks[index]
    found = {o.buffer for o in task.operands if isinstance(o, Operand)} | {task.scratch}
    return {n for n in found if n >= 0 and program.buffers[n].storage in PLANNED}


@pytest.mark.parametrize("seed", range(60))
def test_a_missing_edge_is_detected_or_was_implied(seed: int) -> None:
    """Without one edge, either another path implies the order, or the checker finds a fault."""
    random = Random(seed)
    program = Drafter(random, 1 + seed % 3).program(6)
    edges = [(t, a) for t, task in enumerate(program.tasks) for a in task.after]
    if not edges:
        return
    index, lost = random.choice(edges)
    task = program.tasks[index]
    rest = tuple(a for a in task.after if a != lost)
    broken = with_task(program, index, replace(task, after=rest))
    shared = touches(program, index) & touches(program, lost)
    writes = touches(program, index, written=True) | touches(program, lost, written=True)
    if shared & writes and not reaches(broken, lost, index):
        assert check_plan(broken, planned(program, 1), 1)


def touches(program: TaskGraph, index: int, written: bool = False) -> set[int]:
    """Buffers that a task and its branches touch, or write."""
    task = program.tasks[index]
    found = {
        o.buffer for n, o in enumerate(task.operands)
        if isinstance(o, Operand) and (n in task.writes or not written)
    }  # fmt: skip
    for number in task.blocks:
        block = program.blocks[number]
        for inner in range(block.first, block.first + block.count):
            found |= touches(program, inner, written)
    return found


def reaches(program: TaskGraph, first: int, last: int) -> bool:
    return any(a == first or reaches(program, first, a) for a in program.tasks[last].after)


def with_task(program: TaskGraph, index: int, task: Task) -> TaskGraph:
    return replace(program, tasks=(*program.tasks[:index], task, *program.tasks[index + 1 :]))


def with_buffer(program: TaskGraph, number: int, /, **changes: Any) -> TaskGraph:
    buffers = list(program.buffers)
    buffers[number] = replace(buffers[number], **changes)
    return replace(program, buffers=tuple(buffers))


# Registers: 0 is the number 0, 1 is 64, 2 is 1000. Buffers: input, output, weight, two of the arena, scratch.
NUMBERS = (0, 64, 1000)
X, Y, W, A, B, S = range(6)


def at(buffer: int, offset: int = 0) -> Operand:
    return Operand(buffer, offset)


def run(
    operands: Sequence[Operand | None], writes: Sequence[int], after: Sequence[int] = (), scratch: int = -1
) -> Task:
    return Task(
        TaskKind.LAUNCH, tuple(operands), tuple(writes), kernel=0, after=tuple(after), scratch=scratch
    )


def small() -> TaskGraph:
    """a = x + w; if (x) b = a else b = w; y = b, with the launches' scratch."""
    program = Drafter(Random(0), 1).program(0)
    storages = (Storage.INPUT, Storage.OUTPUT, Storage.WEIGHT, Storage.ARENA, Storage.ARENA, Storage.SCRATCH)
    return replace(
        program,
        inputs=(replace(program.inputs[0], dims=(1,)),),
        outputs=(replace(program.outputs[0], dims=(1,)),),
        shape=tuple(Instruction(Code.CONST, n) for n in NUMBERS),
        buffers=tuple(Buffer(storage, 1) for storage in storages),
        tasks=(
            run([at(X), at(W), at(A)], [2], scratch=S),
            Task(TaskKind.IF, (at(X),), blocks=(1, 2), after=(0,)),
            Task(TaskKind.COPY, (at(Y), at(B)), (0,), args=(1,), after=(1,)),
            run([at(A), at(B)], [1]),
            run([at(W), at(B)], [1]),
        ),
        blocks=(Block(0, 3), Block(3, 1), Block(4, 1)),
    )


def placed(arena: int = 192, **offsets: int) -> dict[str, Any]:
    places = {"X": -1, "Y": -1, "W": -1, "A": 0, "B": 64, "S": 128, **offsets}
    return {"registers": list(NUMBERS), "sizes": [64] * 6, "offsets": list(places.values()), "arena": arena}


def test_a_right_program_has_no_faults() -> None:
    assert check_plan(small(), placed(), 1) == []


def test_scratch_may_share_with_what_begins_later() -> None:
    assert check_plan(small(), placed(S=64), 1) == []
    assert check_plan(small(), placed(S=64), 3) == [
        "buffer 5 (scratch '') of 192 bytes is at 64 in an arena of 192"
    ]


def test_a_buffer_of_one_branch_may_share_with_one_of_the_other() -> None:
    program = small()
    first = run([at(W), at(S)], [1])
    program = replace(
        with_buffer(with_task(program, 0, replace(program.tasks[0], scratch=-1)), S, storage=Storage.ARENA),
        tasks=(replace(program.tasks[0], scratch=-1), *program.tasks[1:4],
               replace(first, after=()), run([at(S), at(B)], [1], [4])),
        blocks=(Block(0, 3), Block(3, 1), Block(4, 2)),
    )  # fmt: skip
    assert check_plan(program, placed(S=0), 1) == []
    assert any("share bytes" in fault for fault in check_plan(program, placed(S=64), 1))


PLANS = {
    "outside the arena": (placed(arena=128), "of 64 bytes is at 128 in an arena of 128"),
    "not aligned": (placed(A=32, arena=500), "is at 32 in"),
    "without a place": (placed(B=-1), "is at -1 in"),
    "two live buffers": (placed(B=0), "share bytes, and tasks 3 and 3 may run at the same time"),
    "scratch over an operand": (placed(S=0), "share bytes, and tasks 0 and 0 may run at the same time"),
    "partly": (placed(A=64, B=64, arena=500), "share bytes"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_broken_plan_is_rejected(name: str) -> None:
    plan, message = PLANS[name]
    assert any(message in fault for fault in check_plan(small(), plan, 1))


def test_scratch_is_counted_for_each_thread() -> None:
    plan = placed(S=0, A=64, B=128)
    assert check_plan(small(), plan, 1) == []
    assert any("share bytes" in fault for fault in check_plan(small(), plan, 2))


def broken(index: int, **changes: Any) -> TaskGraph:
    program = small()
    return with_task(program, index, replace(program.tasks[index], **changes))


PROGRAMS = {
    "an If that does not wait": (broken(1, after=()), "tasks 0 and 3 may access buffer 3"),
    "a read that does not wait": (
        broken(2, after=(0,)),
        "task 2 reads buffer 4 (arena ''), which may not have been",
    ),
    "a write that does not wait for readers": (
        broken(2, operands=(at(A), at(Y)), after=(0,)),
        "tasks 2 and 3 may access buffer 3",
    ),
    "a branch that does not write": (broken(4, operands=(at(W), at(A))), "task 2 reads buffer 4"),
    "an output that is not written": (
        broken(2, operands=(at(A), at(B))),
        "buffer 1 (output '') may not have been",
    ),
    "an input that is written": (
        broken(0, operands=(at(W), at(X), at(A)), writes=(1, 2)),
        "writes buffer 0 (input '')",
    ),
    "a weight that is written": (
        broken(0, operands=(at(X), at(W), at(A)), writes=(1, 2)),
        "writes buffer 2 (weight '')",
    ),
    "an operand beyond its buffer": (
        broken(0, operands=(at(X), at(W, 2), at(A))),
        "accesses memory outside buffer 2",
    ),
    "a result over an operand that is read twice": (
        broken(0, operands=(at(A), at(A), at(A))),
        "task 0 reads buffer 3 (arena '') in 2 operands and writes it",
    ),
    "a copy beyond its buffer": (broken(2, args=(2,)), "accesses memory outside buffer 4"),
    "scratch that is none": (broken(0, scratch=B), "uses buffer 4 (arena '') as scratch"),
    "a buffer that is not there": (broken(0, operands=(at(9),), writes=()), "accesses buffer 9"),
    "a kernel that is not there": (
        broken(0, operands=(at(X), FunctionOperand(3), at(A)), writes=(2,)),
        "takes kernel 3 of 1",
    ),
    "a written operand that is not there": (broken(0, writes=(2, 5)), "task 0 writes operand 5 of 3"),
    "an edge forward": (broken(0, after=(1,)), "task 0 waits for task 1"),
    "an edge into a branch": (broken(3, after=(0,)), "task 3 waits for task 0"),
    "a block entered twice": (broken(1, blocks=(1, 1)), "tasks enter blocks [1, 1] of 3"),
    "a block that holds its own If": (
        replace(small(), blocks=(Block(0, 3), Block(1, 1), Block(4, 1))),
        "task 1",
    ),
    "a task in no block": (
        replace(small(), blocks=(Block(0, 3), Block(3, 0), Block(4, 1))),
        "task 3 is in no block",
    ),
    "an output without a buffer": (
        with_buffer(small(), Y, storage=Storage.ARENA),
        "the output buffers belong to",
    ),
    "an output of another port": (with_buffer(small(), Y, index=1), "belongs to output 1 of 1"),
    "an output of another size": (with_buffer(small(), Y, size=2), "has 1000 bytes, its output 64"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_broken_program_is_rejected(name: str) -> None:
    program, message = PROGRAMS[name]
    faults = check_plan(program, placed(), 1)
    assert any(message in fault for fault in faults), faults


# Registers: 0 is 0, 1 is 64, 2 is 1000, 3 is 8. A is read in a loop, B is its body's own, S counts its runs.
def looping() -> TaskGraph:
    """a = x; twice: b = a, row of y = b"""
    program = small()
    return replace(
        program,
        outputs=(replace(program.outputs[0], dims=(4,)),),
        shape=(
            *program.shape,
            Instruction(Code.CONST, 8),
            Instruction(Code.CONST, 128),
            Instruction(Code.CONST, 2),
        ),
        buffers=(
            program.buffers[X],
            replace(program.buffers[Y], size=4),
            *program.buffers[W:S],
            replace(program.buffers[S], storage=Storage.ARENA, size=3),
        ),
        tasks=(
            run([at(X), at(A)], [1]),
            Task(TaskKind.LOOP, (at(S), None, None), (0,), args=(5,), blocks=(1,), after=(0,)),
            run([at(A), at(B)], [1]),
            Task(TaskKind.COPY, (at(Y), at(B), at(S)), (0,), args=(1,), after=(2,)),
        ),
        blocks=(Block(0, 2), Block(2, 2)),
    )


def looped(arena: int = 192, **offsets: int) -> dict[str, Any]:
    plan = placed(arena, **offsets)
    return {**plan, "registers": [*NUMBERS, 8, 128, 2], "sizes": [64, 128, 64, 64, 64, 8]}


def test_a_valid_loop_has_no_faults() -> None:
    assert check_plan(looping(), looped(), 1) == []


def with_loop(index: int, **changes: Any) -> TaskGraph:
    return with_task(looping(), index, replace(looping().tasks[index], **changes))


LOOPS = {
    "what each run reads is overwritten": (looping(), looped(B=0), "share bytes"),
    "the number of the run is overwritten": (looping(), looped(S=64), "share bytes"),
    "a body that writes the number": (
        with_loop(2, operands=(at(A), at(B), at(S)), writes=(1, 2)),
        looped(),
        "task 2 writes buffer 5 (arena ''), which controls the loop of task 1",
    ),
    "more rows than there is room": (with_loop(1, args=(1,)), looped(), "task 3 copies to more rows"),
    "rows of any number": (with_loop(1, args=()), looped(), "task 3 copies to more rows"),
    "rows that are not all copied": (
        with_loop(1, args=(0,)),
        looped(),
        "buffer 1 (output '') may not have been written",
    ),
    "rows that nothing counts": (
        with_loop(3, operands=(at(Y), at(B), at(W))),
        looped(),
        "rows, but not by the index of the loop around it",
    ),
    "a limit beyond its buffer": (
        with_loop(1, operands=(at(S), at(W, 1), None)),
        looped(),
        "task 1 accesses memory outside buffer 2",
    ),
    "a value that no run has made yet": (
        with_loop(2, operands=(at(B), at(B)), writes=(1,)),
        looped(),
        "task 2 reads buffer 4",
    ),
    "a loop that does not wait": (with_loop(1, after=()), looped(), "tasks 0 and 2 may access buffer 3"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_broken_loop_is_rejected(name: str) -> None:
    program, plan, message = LOOPS[name]
    faults = check_plan(program, plan, 1)
    assert any(message in fault for fault in faults), faults


@pytest.mark.parametrize(("runs", "faults"), [(1, 0), (0, 1)])
def test_rows_fill_a_slot_up_to_its_neighbor(runs: int, faults: int) -> None:
    """The program is ``a = x``; ``runs`` times ``b = a`` and row of ``y = b``; then the second row of ``y``
    is the first.
    """
    program = looping()
    fill, loop, *body = program.tasks
    neighbor = Task(TaskKind.COPY, (at(Y, 1), at(Y)), (0,), args=(1,), after=(1,))
    first, second = (replace(task, after=tuple(t + 1 for t in task.after)) for task in body)
    program = replace(
        program,
        tasks=(fill, replace(loop, args=(6,)), neighbor, first, second),
        shape=(*program.shape, Instruction(Code.CONST, runs)),
        blocks=(Block(0, 3), Block(3, 2)),
    )
    plan = looped()
    found = check_plan(program, {**plan, "registers": [*plan["registers"], runs]}, 1)
    assert found == ["task 2 reads buffer 1 (output ''), which may not have been written"] * faults


def test_a_value_of_one_iteration_may_reuse_dead_memory() -> None:
    """x is copied to a once, before the loop; b is computed again in every iteration."""
    program = with_task(with_loop(2, operands=(at(X), at(B))), 0, run([at(X), at(A)], [1]))
    assert check_plan(program, looped(B=0), 1) == []


def test_every_planned_buffer_is_known_to_the_planner() -> None:
    program = Drafter(Random(1), 2).program(10)
    plan = planned(program, 1)
    spans = [
        plan["offsets"][n] + plan["sizes"][n] for n, b in enumerate(program.buffers) if b.storage in PLANNED
    ]
    assert 0 < max(spans) <= plan["arena"]
