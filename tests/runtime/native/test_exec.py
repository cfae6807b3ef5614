"""The executor on programs put together by hand: every kind of task, at 1, 2 and 3 threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from graphwright import _native
from graphwright.ir.types import BOOL, F32, I64
from graphwright.low_ir.tasks import (
    Block,
    Code,
    FunctionOperand,
    HostFunction,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from graphwright.runtime.events.recording import Recording
from graphwright.runtime.events.task_calls import task_calls
from tests.runtime.native.handmade import (
    Builder,
    affine_chain,
    affine_chain_value,
    load,
    numbers,
    wide,
    wide_value,
)
from tests.threads import in_threads

THREADS = (1, 2, 3)
HEAVY = 1_000_000
"""Nanoseconds that make the executor hand out chunks and wake threads."""


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("work", [0, HEAVY])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_tasks_of_a_chain_run_in_order(library: _native.Library, threads: int, work: int, n: int) -> None:
    x = numbers(n)
    kept = x.copy()
    model = load(affine_chain(9, work), library)
    (y,) = model.run([x], threads=threads)
    assert y.dtype == np.float32 and y.shape == (n,)
    np.testing.assert_array_equal(y, affine_chain_value(x, 9))
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("work", [0, HEAVY])
@pytest.mark.parametrize("branches", [2, 5, 23])
def test_more_concurrent_tasks_than_parallel_regions(
    library: _native.Library, threads: int, work: int, branches: int
) -> None:
    x = numbers(501)
    model = load(wide(branches, work), library)
    for _ in range(20):
        (y,) = model.run([x], threads=threads)
        np.testing.assert_array_equal(y, wide_value(x, branches))


def test_outputs_of_a_run_do_not_change_with_the_next(library: _native.Library) -> None:
    model = load(affine_chain(3), library)
    first = model.run([numbers(64)])[0]
    kept = first.copy()
    model.run([numbers(64) + 1])
    np.testing.assert_array_equal(first, kept)


def test_given_outputs_are_used(library: _native.Library) -> None:
    x, y = numbers(64), np.zeros(64, np.float32)
    result = load(affine_chain(3), library).run([x], [y])
    assert result[0] is y
    np.testing.assert_array_equal(y, affine_chain_value(x, 3))


@pytest.mark.parametrize("threads", THREADS)
def test_scratch_is_private_to_a_thread(library: _native.Library, threads: int) -> None:
    b = Builder()
    x, (rows, columns) = b.input(2)
    y = b.output((rows,))
    scratch = b.buffer(Storage.SCRATCH, b.bytes_of(columns))
    b.launch("row_sum", [x, y], [1], rows, args=[columns], work=HEAVY, scratch=scratch)
    model = load(b.program(), library)
    one = np.random.default_rng(0).integers(-50, 50, (301, 130)).astype(np.float32)
    for _ in range(30):
        np.testing.assert_array_equal(model.run([one], threads=threads)[0], one.sum(1))
    assert model.plan([one.shape], threads)["arena"] == threads * 576
    np.testing.assert_array_equal(model.run([one], threads=threads, poison=True)[0], one.sum(1))


@pytest.mark.parametrize("threads", THREADS)
def test_a_kernel_calls_its_hook(library: _native.Library, threads: int) -> None:
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    hook = FunctionOperand(b.kernel("triple"))
    b.launch("hooked", [x, hook, y], [2], n, args=[b.const(0), b.const(5)], work=HEAVY)
    z = numbers(100)
    np.testing.assert_allclose(load(b.program(), library).run([z], threads=threads)[0], z * 3 + 5, rtol=1e-6)


def test_absent_operand_is_null(library: _native.Library) -> None:
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    b.launch("hooked", [x, None, y], [2], n, args=[b.const(0), b.const(5)])
    with pytest.raises(_native.KernelError) as caught:
        load(b.program(), library).run([numbers(3)])
    assert caught.value.args == (0, 7)


def branching(library: _native.Library) -> _native.Program:
    """y = outer ? (inner ? 4x + 1 : 2x) : copy of x, then y doubled plus 100."""
    b = Builder()
    outer, _ = b.input(1, BOOL)
    inner, _ = b.input(1, BOOL)
    x, (n,) = b.input(1)
    size = b.bytes_of(n)
    t = b.arena(size)
    u = b.arena(size, [t])
    y = b.output((n,))
    b.task(TaskKind.IF, [b.at(outer)], blocks=(1, 2))
    b.launch("affine", [t, y], [1], n, args=[b.const(100)], after=[0], work=HEAVY)
    b.task(TaskKind.IF, [b.at(inner)], blocks=(3, 4))  # block 1
    b.task(TaskKind.COPY, [b.at(t), b.at(x)], [0], args=(size,))  # block 2
    b.launch("affine", [x, u], [1], n, args=[b.const(0)], work=HEAVY)  # block 3
    b.launch("affine", [u, t], [1], n, args=[b.const(1)], after=[4], work=HEAVY)
    b.launch("affine", [x, t], [1], n, args=[b.const(0)], work=HEAVY)  # block 4
    b.blocks = [Block(0, 2), Block(2, 1), Block(3, 1), Block(4, 2), Block(6, 1)]
    return load(b.program(), library)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_nested_branches_run_the_chosen_blocks(
    library: _native.Library, threads: int, poison: bool, outer: bool, inner: bool
) -> None:
    x = numbers(333)
    chosen = (x * 4 + 1 if inner else x * 2) if outer else x
    (y,) = branching(library).run([np.array([outer]), np.array([inner]), x], threads=threads, poison=poison)
    np.testing.assert_array_equal(y, chosen * 2 + 100)


@pytest.mark.parametrize("threads", THREADS)
def test_a_branch_without_tasks(library: _native.Library, threads: int) -> None:
    b = Builder()
    condition, _ = b.input(1, BOOL)
    x, (n,) = b.input(1)
    y = b.output((n,))
    b.launch("affine", [x, y], [1], n, args=[b.const(0)], work=HEAVY)
    b.task(TaskKind.IF, [b.at(condition)], blocks=(1, 2), after=(0,))
    b.launch("affine", [x, y], [1], n, args=[b.const(1)], work=HEAVY)
    b.blocks = [Block(0, 2), Block(2, 1), Block(3, 0)]
    model, z = load(b.program(), library), numbers(50)
    np.testing.assert_array_equal(model.run([np.array([True]), z], threads=threads)[0], z * 2 + 1)
    np.testing.assert_array_equal(model.run([np.array([False]), z], threads=threads)[0], z * 2)


def looping(library: _native.Library, work: int = HEAVY) -> _native.Program:
    """As often as input 0 says, while input 1 holds, 100 times at most: y is doubled, plus 1, and a row."""
    b = Builder()
    limit, _ = b.input(0, I64)
    condition, _ = b.input(0, BOOL)
    x, (n,) = b.input(1)
    y, rows = b.output((n,)), b.output((b.const(3), n))
    size, one = b.bytes_of(n), b.const(1)
    number = b.arena(b.const(8))
    inner = b.arena(b.const(8), [number])
    t = b.arena(size, [number, inner])
    b.task(TaskKind.COPY, [b.at(y), b.at(x)], [0], args=(size,))
    steering = [b.at(number), b.at(limit), b.at(condition)]
    b.task(TaskKind.LOOP, steering, [0], args=(b.const(100),), blocks=(1,), after=(0,))
    b.launch("affine", [y, t], [1], n, args=[one], work=work)  # block 1
    b.tasks.append(
        Task(TaskKind.LOOP, (b.at(inner), None, None), (0,), args=(b.const(1),), blocks=(2,), after=(2,))
    )
    b.task(TaskKind.COPY, [b.at(rows), b.at(y), b.at(number)], [0], args=(size,), after=(3,))
    b.task(TaskKind.COPY, [b.at(y), b.at(t)], [0], args=(size,))  # block 2
    b.blocks = [Block(0, 2), Block(2, 3), Block(5, 1)]
    return load(b.program(), library)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("work", [0, HEAVY])
def test_loops_of_any_trip_count(library: _native.Library, threads: int, poison: bool, work: int) -> None:
    model, x = looping(library, work), numbers(333)
    for trips in (-5, 0, 1, 3):
        y, rows = model.run([np.array(trips), np.array(True), x], threads=threads, poison=poison)
        value = x
        for k in range(trips):
            value = value * 2 + 1
            np.testing.assert_array_equal(rows[k], value)
        np.testing.assert_array_equal(y, value)
    y, _ = model.run([np.array(3), np.array(False), x], threads=threads, poison=poison)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("poison", [False, True])
def test_loops_of_short_tasks_concurrent_with_long_ones(
    library: _native.Library, threads: int, poison: bool
) -> None:
    b = Builder()
    x, (n,) = b.input(1)
    y, z = b.output((n,)), b.output((n,))
    size, one = b.bytes_of(n), b.const(1)
    scratch = b.buffer(Storage.SCRATCH, size)
    number = b.arena(b.const(8), [scratch])
    t = b.arena(size, [scratch, number])
    b.task(TaskKind.COPY, [b.at(y), b.at(x)], [0], args=(size,))
    b.tasks.append(
        Task(TaskKind.LOOP, (b.at(number), None, None), (0,), args=(b.const(9),), blocks=(1,), after=(0,))
    )
    b.launch("affine", [x, z], [1], n, args=[one], work=HEAVY)
    b.launch("affine", [y, t], [1], n, args=[one], scratch=scratch)  # block 1
    b.task(TaskKind.COPY, [b.at(y), b.at(t)], [0], args=(size,), after=(3,), work=b.const(1))
    b.blocks = [Block(0, 3), Block(3, 2)]
    model, value = load(b.program(), library), numbers(700)
    expected = value
    for _ in range(9):
        expected = expected * 2 + 1
    for _ in range(20):
        looped, doubled = model.run([value], threads=threads, poison=poison)
        np.testing.assert_array_equal(looped, expected)
        np.testing.assert_array_equal(doubled, value * 2 + 1)


@pytest.mark.parametrize("threads", THREADS)
def test_rows_beyond_their_buffer_end_the_run(library: _native.Library, threads: int) -> None:
    model, x = looping(library), numbers(65)
    with pytest.raises(_native.KernelError) as caught:
        model.run([np.array(4), np.array(True), x], threads=threads)
    assert caught.value.args == (4, -1)


@pytest.mark.parametrize("threads", THREADS)
def test_a_failing_kernel_ends_a_loop(library: _native.Library, threads: int) -> None:
    """The loop would have 2**62 iterations."""
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    number = b.arena(b.const(8))
    b.launch("affine", [x, y], [1], n, args=[b.const(0)], work=HEAVY)
    b.tasks.append(
        Task(TaskKind.LOOP, (b.at(number), None, None), (0,), args=(b.const(2**62),), blocks=(1,), after=(0,))
    )
    b.launch("fail_at", [], [], n, args=[b.const(42), b.const(5)], work=HEAVY)
    b.blocks = [Block(0, 2), Block(2, 1)]
    with pytest.raises(_native.KernelError) as caught:
        load(b.program(), library).run([numbers(64)], threads=threads)
    assert caught.value.args == (2, 42)


@pytest.mark.parametrize("threads", THREADS)
def test_a_host_function_in_a_loop_sees_the_number_of_the_run(library: _native.Library, threads: int) -> None:
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    number = b.arena(b.const(8))
    b.launch("affine", [x, y], [1], n, args=[b.const(0)], work=HEAVY)
    b.tasks.append(
        Task(TaskKind.LOOP, (b.at(number), None, None), (0,), args=(b.const(4),), blocks=(1,), after=(0,))
    )
    b.hosts.append(HostFunction("See", ((I64, ()),), ()))
    b.tasks.append(Task(TaskKind.HOSTCALL, (b.at(number),), (), kernel=0))
    b.blocks = [Block(0, 2), Block(2, 1)]
    seen: list[int] = []

    def see(inputs: Any, outputs: Any) -> None:
        seen.append(int.from_bytes(bytes(inputs[0][0]), "little"))

    model = load(b.program(), library, hosts=[see])
    model.run([numbers(64)], threads=threads)
    assert seen == [0, 1, 2, 3]


def test_a_loop_without_tasks_ends(library: _native.Library) -> None:
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    number = b.arena(b.const(8))
    b.tasks.append(Task(TaskKind.LOOP, (b.at(number), None, None), (0,), args=(b.const(2**62),), blocks=(1,)))
    b.launch("affine", [x, y], [1], n, args=[b.const(0)], after=[0], work=HEAVY)
    b.blocks = [Block(0, 2), Block(0, 0)]
    for threads in THREADS:
        z = numbers(9)
        np.testing.assert_array_equal(load(b.program(), library).run([z], threads=threads)[0], z * 2)


def failing(library: _native.Library, after_failure: int = 3) -> _native.Program:
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    b.launch("affine", [x, y], [1], n, args=[b.const(0)], work=HEAVY)
    b.launch("fail_at", [], [], n, args=[b.const(42), b.const(5)], after=[0], work=HEAVY)
    for _ in range(after_failure):
        b.launch("affine", [x, y], [1], n, args=[b.const(9)], after=[len(b.tasks) - 1], work=HEAVY)
    return load(b.program(), library)


@pytest.mark.parametrize("threads", THREADS)
def test_failing_kernel_stops_the_run(library: _native.Library, threads: int) -> None:
    model, x, y = failing(library), numbers(64), np.zeros(64, np.float32)
    with pytest.raises(_native.KernelError) as caught:
        model.run([x], [y], threads=threads)
    assert caught.value.args == (1, 42)
    np.testing.assert_array_equal(y, x * 2)
    small = numbers(5)  # unit 5 does not exist: the same model runs on
    np.testing.assert_array_equal(model.run([small], threads=threads)[0], small * 2 + 9)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("program", [affine_chain(6, HEAVY), wide(6, HEAVY)])
def test_poisoned_memory_changes_no_answer(
    library: _native.Library, program: TaskGraph, threads: int
) -> None:
    model, x = load(program, library), numbers(1001)
    (expected,) = model.run([x], threads=1)
    for _ in range(5):
        np.testing.assert_array_equal(model.run([x], threads=threads, poison=True)[0], expected)


def test_a_read_after_the_end_of_a_lifetime_gives_nan(library: _native.Library) -> None:
    """Two buffers share memory although both are live: the result contains NaN."""
    b = Builder()
    x, (n,) = b.input(1)
    size = b.bytes_of(n)
    y = b.output((n,))
    first, second = b.arena(size), b.arena(size)  # a conflict is missing
    b.launch("affine", [x, first], [1], n, args=[b.const(0)])
    b.launch("affine", [x, second], [1], n, args=[b.const(1)], after=[0])
    b.launch("affine", [second, second], [1], n, args=[b.const(1)], after=[1])
    b.launch("affine", [first, y], [1], n, args=[b.const(0)], after=[2])
    model = load(b.program(), library)
    assert not np.isnan(model.run([numbers(10)], threads=1)[0]).any()
    assert np.isnan(model.run([numbers(10)], threads=1, poison=True)[0]).all()


def test_a_read_of_unwritten_memory_gives_nan(library: _native.Library) -> None:
    b = Builder()
    _, (n,) = b.input(1)
    b.output((n,))
    assert np.isnan(load(b.program(), library).run([numbers(10)], poison=True)[0]).all()


@pytest.mark.parametrize("threads", THREADS)
def test_weights_are_read_at_their_offsets(library: _native.Library, threads: int) -> None:
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    w = b.buffer(Storage.WEIGHT, b.const(12), 8)
    b.launch("add", [x, b.at(w, 4), y], [2], b.const(2), work=HEAVY)
    weights = np.arange(10, dtype=np.float32)
    model = load(b.program(), library, weights=weights.tobytes())
    assert model.run([np.array([10, 20], np.float32)], threads=threads)[0].tolist() == [13.0, 24.0]


def test_plans_are_kept_by_last_use(library: _native.Library) -> None:
    model = load(affine_chain(3), library, plan_cache=3)
    for n in (1, 2, 3, 1, 4, 1, 2):
        x = numbers(n)
        np.testing.assert_array_equal(model.run([x], threads=1)[0], affine_chain_value(x, 3))
    stats = model.stats()
    assert (stats["plans"], stats["plan_hits"], stats["plan_misses"], stats["runs"]) == (3, 2, 5, 7)


def test_plan_returns_shapes_and_arena(library: _native.Library) -> None:
    plan = load(affine_chain(3, HEAVY), library).plan([(1000,)], threads=2)
    assert plan["outputs"] == [(1000,)]
    assert plan["arena"] == 2 * 4032
    assert sorted(plan["offsets"]) == [-1, -1, 0, 4032]
    assert plan["chunks"] == [16, 16, 16]
    assert load(affine_chain(3, 0), library).plan([(1000,)], threads=2)["chunks"] == [1, 1, 1]


def test_arenas_grow_and_are_shared_by_shapes(library: _native.Library) -> None:
    model = load(affine_chain(4), library)
    for n in (10, 1_000_000, 10, 3_000_000, 20):
        x = numbers(n)
        np.testing.assert_array_equal(model.run([x], threads=1)[0], affine_chain_value(x, 4))
    assert model.stats()["contexts"] == 1


@pytest.mark.parametrize("threads", THREADS)
def test_concurrent_runs_do_not_disturb_each_other(library: _native.Library, threads: int) -> None:
    model, other = load(wide(7, HEAVY), library), load(affine_chain(7, HEAVY), library, plan_cache=2)

    def work(index: int) -> None:
        for i in range(60):
            x = numbers(100 + index * 7 + i % 5)
            np.testing.assert_array_equal(model.run([x], threads=threads)[0], wide_value(x, 7))
            np.testing.assert_array_equal(other.run([x], threads=threads)[0], affine_chain_value(x, 7))

    in_threads(work, range(5))
    assert model.stats()["runs"] == 300


def test_threads_share_the_work_of_a_launch(library: _native.Library) -> None:
    b = Builder()
    b.inputs.clear()
    n = b.const(40)
    y = b.output((n,))
    b.launch("burn", [y], [0], n, args=[b.const(100)], work=4_000_000)
    b.launch("burn", [y], [0], n, args=[b.const(100)], after=[0], work=4_000_000)
    model = load(b.program(), library)
    with Recording() as recording:
        assert model.run([], threads=2)[0].tolist() == [1.0] * 40
    calls = task_calls(recording.events())
    assert calls["task"].tolist() == [0, 1]
    assert (calls["end"] - calls["start"] >= 4_000_000 // 2 - 100_000).all()
    assert calls["start"][1] >= calls["end"][0] > calls["start"][0] > 0
    assert set(calls["slot"].tolist()) <= {0, 1}
    assert _native.workers() >= 1


def doubling(program_threads: int, library: _native.Library, host: Callable[..., object]) -> _native.Program:
    """y = 2 * host(2 * x)."""
    b = Builder()
    x, (n,) = b.input(1)
    size = b.bytes_of(n)
    t = b.arena(size)
    u = b.arena(size, [t])
    y = b.output((n,))
    b.launch("affine", [x, t], [1], n, args=[b.const(0)], work=HEAVY)
    b.hosts.append(HostFunction("Square", ((F32, (n,)), None), ((F32, (n,)),)))
    b.tasks.append(
        Task(TaskKind.HOSTCALL, (b.at(t), None, b.at(u)), (2,), kernel=0, work=b.const(HEAVY), after=(0,))
    )
    b.launch("affine", [u, y], [1], n, args=[b.const(0)], after=[1], work=HEAVY)
    return load(b.program(), library, hosts=[host])


@pytest.mark.parametrize("threads", THREADS)
def test_a_host_call_reads_and_writes_buffers(library: _native.Library, threads: int) -> None:
    def square(inputs: list[Any], outputs: list[Any]) -> None:
        (data, shape), absent = inputs
        (result, result_shape), *_ = outputs
        assert absent is None and shape == result_shape == (300,)
        np.frombuffer(result, np.float32)[:] = np.frombuffer(data, np.float32) ** 2

    model, x = doubling(threads, library, square), numbers(300)
    for _ in range(10):
        np.testing.assert_array_equal(model.run([x], threads=threads)[0], (x * 2) ** 2 * 2)
    assert model.stats()["host_calls"] == 10
    in_threads(lambda _: [model.run([x], threads=threads) for _ in range(10)], range(3))
    assert model.stats()["host_calls"] == 40


@pytest.mark.parametrize("threads", THREADS)
def test_exceptions_of_host_functions_reach_the_caller(library: _native.Library, threads: int) -> None:
    def refuse(inputs: list[Any], outputs: list[Any]) -> None:
        raise ZeroDivisionError("the op does not like it")

    model = doubling(threads, library, refuse)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="does not like it"):
            model.run([numbers(30)], threads=threads)


def checked() -> TaskGraph:
    """Two inputs that must have the same length, at most 10."""
    b = Builder()
    x, (n,) = b.input(1)
    y, (m,) = b.input(1)
    same = b.register(Code.CHECK_EQ, n, m, "lengths differ")
    b.register(Code.CHECK_LE, n, b.const(10), "too long")
    z = b.output((same,))
    b.launch("add", [x, y, z], [2], same)
    return b.program()


def test_failed_check_names_its_instruction_and_values(library: _native.Library) -> None:
    program = checked()
    model = load(program, library)
    assert model.run([np.ones(10, np.float32)] * 2)[0].tolist() == [2.0] * 10
    for n, m, note in ((3, 4, "lengths differ"), (11, 11, "too long")):
        with pytest.raises(_native.CheckError) as caught:
            model.run([np.ones(n, np.float32), np.ones(m, np.float32)])
        instruction, a, b = caught.value.args
        assert program.shape[instruction].note == note
        assert (a, b) == ((3, 4) if n == 3 else (11, 10))


def bad_feeds() -> Iterator[tuple[str, list[Any], list[Any] | None]]:
    x = np.ones(4, np.float32)
    frozen = x.copy()
    frozen.flags.writeable = False
    yield "0 inputs given", [], None
    yield "2 inputs given", [x, x], None
    yield "must have rank 1, but has rank 2", [x.reshape(2, 2)], None
    yield "not contiguous", [np.ones(8, np.float32)[::2]], None
    yield "elements of another size", [np.ones(4, np.float64)], None
    yield "holds objects", [np.array([None] * 4)], None
    yield "neither an array", [[1.0, 2.0]], None
    yield "read-only", [x], [frozen]
    yield r"has shape \(4,\), but the array for it has shape \(5,\)", [x], [np.ones(5, np.float32)]
    yield "has not the bytes", [x], [np.ones(4, np.float64)]
    yield "2 outputs given", [x], [None, None]


@pytest.mark.parametrize("text, inputs, outputs", list(bad_feeds()))
def test_bad_feeds_are_rejected(
    library: _native.Library, text: str, inputs: list[Any], outputs: list[Any] | None
) -> None:
    with pytest.raises(_native.FeedError, match=text):
        load(affine_chain(2), library).run(inputs, outputs)


def test_sizes_stated_by_the_program_are_checked(library: _native.Library) -> None:
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    b.launch("affine", [x, y], [1], n, args=[b.const(0)])
    b.inputs[0] = type(b.inputs[0])("x", F32, (b.const(4),))
    model = load(b.program(), library)
    assert model.run([np.ones(4, np.float32)])[0].tolist() == [2.0] * 4
    with pytest.raises(_native.FeedError) as caught:
        model.run([np.ones(5, np.float32)])
    assert caught.value.args == ("axis 0 of input 0 must be 4, but is 5", 0, 0)


def outside() -> Iterator[tuple[str, Callable[[Builder], object]]]:
    def operand(storage: Storage, size: int, offset: int, index: int = 0) -> Callable[[Builder], object]:
        def add(b: Builder) -> None:
            b.launch("fail_at", [b.at(b.buffer(storage, b.const(size), index), offset)], [], b.const(0))

        return add

    def copy(bytes_: int) -> Callable[[Builder], object]:
        def add(b: Builder) -> None:
            buffer = b.arena(b.const(64))
            b.task(TaskKind.COPY, [b.at(buffer), b.at(buffer, 32)], [0], args=(b.const(bytes_),))

        return add

    yield "offset beyond the arena buffer", operand(Storage.ARENA, 64, 65)
    yield "negative offset", operand(Storage.ARENA, 64, -1)
    yield "negative size", operand(Storage.ARENA, -64, 0)
    yield "huge size", operand(Storage.ARENA, 2**63 - 1, 0)
    yield "weights beyond the blob", operand(Storage.WEIGHT, 12, 0, 8)
    yield "weights far beyond the blob", operand(Storage.WEIGHT, 1, 0, 2**62)
    yield "input buffer beyond the input", operand(Storage.INPUT, 17, 0)
    yield "copy past the end", copy(33)
    yield "copy of negative size", copy(-1)
    yield "negative grid", lambda b: b.launch("fail_at", [], [], b.const(-1))
    yield "division by zero", lambda b: b.register(Code.FLOORDIV, b.const(1), b.const(0))
    yield "modulo of zero", lambda b: b.register(Code.MOD, b.const(1), b.const(0))
    yield "sum overflows", lambda b: b.register(Code.ADD, b.const(2**63 - 1), b.const(1))
    yield "difference overflows", lambda b: b.register(Code.SUB, b.const(-(2**63)), b.const(1))
    yield "product overflows", lambda b: b.register(Code.MUL, b.const(2**62), b.const(2))
    yield "quotient overflows", lambda b: b.register(Code.FLOORDIV, b.const(-(2**63)), b.const(-1))
    yield "output of negative size", lambda b: b.output((b.const(-1),))
    yield "output that overflows", lambda b: b.output((b.const(2**62), b.const(4)))


@pytest.mark.parametrize("case, add", list(outside()), ids=[case for case, _ in outside()])
def test_tasks_that_exceed_their_memory_are_rejected(
    library: _native.Library, case: str, add: Callable[[Builder], object]
) -> None:
    b = Builder()
    b.input(1)
    add(b)
    with pytest.raises(_native.PlanError):
        load(b.program(), library, weights=bytes(16)).run([np.ones(4, np.float32)])


def test_an_arena_beyond_memory_is_rejected(library: _native.Library) -> None:
    b = Builder()
    b.arena(b.const(2**60))
    with pytest.raises(MemoryError):
        load(b.program(), library).run([])


def test_integer_functions_follow_python(library: _native.Library) -> None:
    b = Builder()
    pairs = [(a, c) for a in (-7, -6, 0, 6, 7, -(2**63)) for c in (-3, -1, 1, 3)]
    pairs = [(a, c) for a, c in pairs if abs(a // c) < 2**63]
    codes: dict[Code, Callable[[int, int], int]] = {
        Code.FLOORDIV: int.__floordiv__,
        Code.MOD: int.__mod__,
        Code.MIN: min,
        Code.MAX: max,
    }
    found = [
        (b.register(code, b.const(a), b.const(c)), function(a, c))
        for code, function in codes.items()
        for a, c in pairs
    ]
    registers = load(b.program(), library).plan([])["registers"]
    assert [registers[index] for index, _ in found] == [value for _, value in found]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 40_000])
def test_long_copies_are_handed_out_in_pieces(library: _native.Library, threads: int, size: int) -> None:
    """Copies of floats are divided into pieces of 1024: y is x, followed by x again."""
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((b.const(2 * size),))
    bytes_ = b.bytes_of(n)
    b.task(TaskKind.COPY, [b.at(y), b.at(x)], [0], args=(bytes_,), work=b.const(HEAVY))
    b.task(TaskKind.COPY, [b.at(y, 4 * size), b.at(x)], [0], args=(bytes_,), work=b.const(HEAVY))
    model, value = load(b.program(), library), numbers(size)
    for _ in range(5):
        (twice,) = model.run([value], threads=threads)
        np.testing.assert_array_equal(twice, np.concatenate([value, value]))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("shift", [-1000, 0, 1000])
def test_copies_that_overlap_move_what_was_there(library: _native.Library, threads: int, shift: int) -> None:
    b, size = Builder(), 40_000
    x, (n,) = b.input(1)
    y = b.output((b.const(size + 1000),))
    bytes_, first = b.bytes_of(n), max(0, -shift)
    b.task(TaskKind.COPY, [b.at(y, 4 * first), b.at(x)], [0], args=(bytes_,), work=b.const(HEAVY))
    moved = [b.at(y, 4 * (first + shift)), b.at(y, 4 * first)]
    b.task(TaskKind.COPY, moved, [0], args=(bytes_,), after=(0,), work=b.const(HEAVY))
    model, value = load(b.program(), library), numbers(size)
    for _ in range(5):
        (result,) = model.run([value], threads=threads)
        np.testing.assert_array_equal(result[first + shift :][:size], value)
