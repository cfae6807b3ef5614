"""The event sink: every piece of every task, on any number of threads, and nothing without a recording."""

from __future__ import annotations

import mmap
import os
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphwright import _native
from graphwright.ir.types import F32
from graphwright.low_ir.tasks import Block, HostFunction, Storage, Task, TaskGraph, TaskKind
from graphwright.runtime.events.counters import COUNTERS, HARDWARE, available
from graphwright.runtime.events.recording import Events, Recording, event_type
from graphwright.runtime.events.task_calls import task_calls
from graphwright.support.event_sink import EventKind, record_node
from tests.runtime.native.handmade import Builder, affine_chain, load, wide
from tests.threads import in_threads

THREADS = (1, 2, 3)
HEAVY = 1_000_000


def numbers(count: int) -> np.ndarray:
    return np.linspace(-1, 1, count, dtype=np.float32)


def counts(events: Events) -> Counter[EventKind]:
    """The number of events of each kind."""
    return Counter(EventKind(kind) for each in events.threads for kind in each.events["kind"].tolist())


def units_of_calls(events: Events) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The pieces of each task of each run, in order of their units."""
    pieces: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for piece in events.of_kind(EventKind.PIECE):
        run, task, begin, end = (int(piece[name]) for name in ("run", "id", "a", "b"))
        pieces.setdefault((run, task), []).append((begin, end))
    return {key: sorted(found) for key, found in pieces.items()}


def test_an_event_has_the_size_that_native_code_gives_it(library: _native.Library) -> None:
    model = load(affine_chain(1), library)
    with Recording() as recording:
        model.run([numbers(3)])
    (thread,) = recording.events().threads
    assert event_type().itemsize == 96 and thread.thread == threading.get_native_id()
    assert thread.events["kind"].tolist()[-2:] == [EventKind.PIECE, EventKind.RUN]


def test_nothing_is_recorded_outside(library: _native.Library) -> None:
    model = load(affine_chain(4), library)
    model.run([numbers(10)])
    assert not _native.is_recording()
    recording = Recording()
    with pytest.raises(RuntimeError, match="not begun"):
        recording.events()
    with recording:
        assert _native.is_recording()
    model.run([numbers(10)])
    record_node("Relu", "after", 0)
    assert counts(recording.events()) == {} and not _native.is_recording()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.sampled_from([0, 1, 2, 7, 64, 1009]),
    threads=st.sampled_from(THREADS),
    work=st.sampled_from([0, HEAVY]),
    branches=st.integers(2, 9),
    runs=st.integers(1, 4),
)
def test_pieces_make_each_task_once(
    library: _native.Library, size: int, threads: int, work: int, branches: int, runs: int
) -> None:
    model, graph = load(wide(branches, work), library), wide(branches, work)
    with Recording() as recording:
        for _ in range(runs):
            model.run([numbers(size)], threads=threads)
    events = recording.events()
    made = units_of_calls(events)
    assert len(made) == runs * len(graph.tasks) and events.lost == 0
    for pieces in made.values():
        assert pieces[0][0] == 0 and pieces[-1][1] == size
        assert [end for _, end in pieces[:-1]] == [begin for begin, _ in pieces[1:]]
    calls = task_calls(events)
    assert Counter(calls["task"].tolist()) == dict.fromkeys(range(len(graph.tasks)), runs)
    assert_in_order(calls, graph)


def assert_in_order(calls: np.ndarray, graph: TaskGraph) -> None:
    """No task begins before those that it waits for have ended."""
    ends = {(int(c["run"]), int(c["task"])): int(c["end"]) for c in calls}
    for call in calls:
        assert call["start"] <= call["end"]
        for before in graph.tasks[int(call["task"])].after:
            assert ends[int(call["run"]), before] <= call["start"]


def repeating(trips: int, inner: int, work: int) -> TaskGraph:
    """A copy, then a loop of a launch and a loop of ``inner`` launches."""
    b = Builder()
    x, (n,) = b.input(1)
    y, z = b.output((n,)), b.output((n,))
    outer = b.arena(b.const(8))
    count = b.arena(b.const(8), [outer])
    b.task(TaskKind.COPY, [b.at(y), b.at(x)], [0], args=(b.bytes_of(n),))
    for number, times, block, after in ((outer, trips, 1, (0,)), (count, inner, 2, (2,))):
        if block == 2:
            b.launch("affine", [x, y], [1], n, args=[b.const(1)], work=work)
        steering, args = (b.at(number), None, None), (b.const(times),)
        b.tasks.append(Task(TaskKind.LOOP, steering, (0,), args=args, blocks=(block,), after=after))
    b.launch("affine", [x, z], [1], n, args=[b.const(2)], work=work)
    b.blocks = [Block(0, 2), Block(2, 2), Block(4, 1)]
    return b.program()


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("work", [0, HEAVY])
@pytest.mark.parametrize(("trips", "inner"), [(0, 3), (1, 1), (5, 3)])
def test_every_run_of_a_loop_is_recorded(
    library: _native.Library, threads: int, work: int, trips: int, inner: int
) -> None:
    model = load(repeating(trips, inner, work), library)
    with Recording() as recording:
        for _ in range(2):
            model.run([numbers(100)], threads=threads)
    calls = task_calls(recording.events())
    expected = {0: 1, 1: 1, 2: trips, 3: trips, 4: trips * inner}
    assert Counter(calls["task"].tolist()) == {k: 2 * n for k, n in expected.items() if n}
    assert set(calls["task"][calls["is_block"]].tolist()) == ({1, 3} if trips else {1})
    for run in set(calls["run"].tolist()):
        own = calls[calls["run"] == run]
        (loop,) = own[own["task"] == 1]
        inside = own[own["task"] >= 2]
        assert ((inside["start"] >= loop["start"]) & (inside["end"] <= loop["end"])).all()
        outer = own[own["task"] == 3]
        for each in own[own["task"] == 4]:
            assert ((outer["start"] <= each["start"]) & (each["end"] <= outer["end"])).sum() == 1


@pytest.mark.parametrize("threads", THREADS)
def test_a_run_that_fails_is_recorded_with_its_error(library: _native.Library, threads: int) -> None:
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    b.launch("affine", [x, y], [1], n, args=[b.const(0)], work=HEAVY)
    b.launch("fail_at", [], [], n, args=[b.const(42), b.const(0)], after=[0])
    b.launch("affine", [x, y], [1], n, args=[b.const(0)], after=[1])
    model = load(b.program(), library)
    with Recording() as recording:
        for _ in range(3):
            with pytest.raises(_native.KernelError):
                model.run([numbers(64)], threads=threads)
    events = recording.events()
    assert (events.of_kind(EventKind.RUN)["slot"] != 0).tolist() == [True] * 3
    assert Counter(task_calls(events)["task"].tolist()) == {0: 3, 1: 3}


def test_lost_events_are_counted(library: _native.Library) -> None:
    model = load(affine_chain(5), library)
    model.run([numbers(9)])
    with Recording(capacity=10) as recording:
        for _ in range(4):
            model.run([numbers(9)])
    events = recording.events()
    each = 1 + 5 + 1  # the plan, the tasks, the run
    assert sum(counts(events).values()) == 10 and events.lost == 4 * each - 10
    assert events.threads[0].lost == events.lost
    with pytest.raises(ValueError, match="at least 1"):
        _native.Recording(0)


def test_event_buffers_grow_by_segments(library: _native.Library) -> None:
    """There are more events than a segment of the buffer holds, and readers start in the middle of a
    segment.
    """
    model = load(affine_chain(10), library)
    model.run([numbers(3)])
    with Recording() as whole:
        for _ in range(130):
            model.run([numbers(3)])
        with Recording() as part:
            for _ in range(200):
                model.run([numbers(3)])
        assert len(part.events().of_kind(EventKind.RUN)) == 200
        assert len(task_calls(part.events())) == 2000
        model.run([numbers(3)])
    assert len(part.events().of_kind(EventKind.RUN)) == 200
    events = whole.events()
    assert counts(events) == {EventKind.RUN: 331, EventKind.PLAN: 331, EventKind.PIECE: 3310}
    assert len({int(run) for run in events.of_kind(EventKind.RUN)["run"]}) == 331
    (thread,) = events.threads
    assert (np.diff(thread.events["end"]) >= 0).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_several_models_on_several_threads(library: _native.Library, threads: int) -> None:
    models = [load(affine_chain(3), library), load(wide(4, HEAVY), library)]
    tasks = [3, 7]

    def work(index: int) -> None:
        for _ in range(25):
            models[index % 2].run([numbers(200)], threads=threads)

    with Recording() as recording:
        in_threads(work, range(4))
    events = recording.events()
    assert counts(events)[EventKind.RUN] == 100 and events.lost == 0
    calls = task_calls(events)
    assert len(calls) == 50 * sum(tasks)
    callers = [each for each in events.threads if (each.events["kind"] == EventKind.RUN).any()]
    assert sorted((each.events["kind"] == EventKind.RUN).sum() for each in callers) == [25] * 4


def test_recordings_of_several_threads_have_one_sink(library: _native.Library) -> None:
    model, found = load(affine_chain(2), library), []

    def work(index: int) -> None:
        with Recording() as recording:
            for _ in range(20):
                model.run([numbers(5)])
        events = recording.events()
        own = [each for each in events.threads if each.thread == threading.get_native_id()]
        found.append(sum((each.events["kind"] == EventKind.PIECE).sum() for each in own))

    in_threads(work, range(4))
    assert found == [40] * 4 and not _native.is_recording()


def test_plans_come_with_their_numbers(library: _native.Library) -> None:
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    half = b.arena(b.bytes_of(n))
    b.launch("affine", [x, half], [1], n, args=[b.const(0)])
    b.launch("add", [half, half, y], [2], n, after=[0])
    model = load(b.program(), library)
    with Recording() as recording:
        model.run([numbers(6)])
        model.run([numbers(8)])
        model.run([numbers(6)])
    events = recording.events()
    runs = events.of_kind(EventKind.RUN)
    assert len(events.plans) == 2 and runs["id"][0] == runs["id"][2] != runs["id"][1]
    assert events.of_kind(EventKind.PLAN)["a"].tolist() == [0, 0, 1]
    plan = events.plans[int(runs["id"][1])]
    assert plan.target is None and plan.numbers["grids"] == [8, 8]
    assert plan.numbers["read"] == [32, 32], "what is passed twice is read once"
    assert plan.numbers["written"] == [32, 32]
    assert runs["a"].tolist() == [64, 64, 64] and len(set(runs["b"].tolist())) == 1


def test_arenas_that_grow_are_recorded(library: _native.Library) -> None:
    model = load(affine_chain(3), library, arenas=_native.Arenas())
    with Recording() as recording:
        model.run([numbers(16)])
        model.run([numbers(16)])
        model.run([numbers(1 << 20)])
        model.trim()
    memory = recording.events().of_kind(EventKind.MEMORY)
    assert (memory["a"] > 0).tolist() == [True, True, False]
    assert memory["b"].tolist() == np.cumsum(memory["a"]).tolist() and memory["b"][-1] == 0


def test_processor_times_are_recorded_on_request(library: _native.Library) -> None:
    b = Builder()
    y = b.output((b.const(4),))
    b.launch("burn", [y], [0], b.const(4), args=[b.const(500)])
    model = load(b.program(), library)
    with Recording() as without:
        model.run([])
        with Recording(processor=True) as timed:
            model.run([])
    first, second = task_calls(without.events())
    assert first["processor"] == 0 < second["processor"]
    assert task_calls(timed.events())["processor"].tolist() == [second["processor"]]


def test_runs_inside_a_host_function_are_nested_in_its_piece(library: _native.Library) -> None:
    inner = load(affine_chain(2), library)
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    b.hosts.append(HostFunction("Square", ((F32, (n,)),), ((F32, (n,)),)))
    b.task(TaskKind.HOSTCALL, [b.at(x), b.at(y)], [1], kernel=0)
    outer = load(b.program(), library, hosts=[lambda inputs, outputs: inner.run([numbers(4)], threads=1)])
    with Recording() as recording:
        outer.run([numbers(4)], threads=1)
    events = recording.events()
    short, long = sorted(events.of_kind(EventKind.RUN), key=lambda run: int(run["end"] - run["start"]))
    (piece,) = [p for p in events.of_kind(EventKind.PIECE) if p["run"] == long["run"]]
    assert long["start"] <= piece["start"] <= short["start"] <= short["end"] <= piece["end"] <= long["end"]
    assert len(task_calls(events)) == 3


def test_a_child_process_does_not_record(library: _native.Library) -> None:
    model = load(affine_chain(2), library)
    with Recording() as recording:
        model.run([numbers(4)])
        child = os.fork()
        if child == 0:
            model.run([numbers(4)], threads=1)
            os._exit(3 if _native.is_recording() else 0)
        assert os.waitpid(child, 0)[1] == 0
        model.run([numbers(4)])
    assert counts(recording.events())[EventKind.RUN] == 2


def test_texts_from_python_are_numbered() -> None:
    hostile = ["Relu \x1b[31m\udc80", "Relu plain", "Relu \x1b[31m\udc80"]
    with Recording() as recording:
        for text in hostile:
            record_node(*text.split(" ", 1), 1)
    events = recording.events()
    assert [events.texts[number] for number in events.of_kind(EventKind.NODE)["id"]] == hostile
    with pytest.raises(ValueError, match="reserved for the runtime"):
        _native.record(EventKind.RUN, "run", 0, 0)


def test_scratch_is_no_traffic(library: _native.Library) -> None:
    b = Builder()
    x, (rows, columns) = b.input(2)
    y = b.output((rows,))
    scratch = b.buffer(Storage.SCRATCH, b.bytes_of(columns))
    b.launch("row_sum", [x, y], [1], rows, args=[columns], scratch=scratch)
    plan = load(b.program(), library).plan([(5, 3)])
    assert (plan["read"], plan["written"], plan["grids"]) == ([60], [20], [5])


def test_counters_of_the_system_count_what_a_task_does(library: _native.Library) -> None:
    """Each page of untouched memory causes a page fault."""
    b = Builder()
    x, (n,) = b.input(1)
    y = b.output((n,))
    b.launch("affine", [x, y], [1], n, args=[b.const(0)])
    model = load(b.program(), library)
    pages, x_value = 64, numbers(64 * 1024)
    with mmap.mmap(-1, 4096 * pages) as fresh, Recording(counters=("page_faults",)) as recording:
        fresh.madvise(mmap.MADV_NOHUGEPAGE)
        y_value = np.frombuffer(fresh, np.float32)
        for _ in range(2):
            model.run([x_value], [y_value], threads=1)
        del y_value
    events = recording.events()
    first, second = task_calls(events)["counted"]
    assert events.counters == ("page_faults",)
    assert pages <= first[0] <= pages + 8 and second[0] < 8 and not first[1:].any()


def test_counters_of_recordings_agree(library: _native.Library) -> None:
    model = load(affine_chain(2), library)
    with Recording() as outer:
        with Recording(counters=("page_faults",)), Recording(counters=("page_faults",)):
            model.run([numbers(3)])
        with pytest.raises(ValueError, match="other counters"), Recording(counters=("cycles",)):
            pass
        model.run([numbers(3)])
    assert len(task_calls(outer.events())) == 4 and not _native.is_recording()
    with pytest.raises(ValueError, match="cycles, instructions"):
        Recording(counters=("misses",))
    with pytest.raises(ValueError, match="4 counters"), Recording(counters=COUNTERS):
        pass


def test_counters_that_the_machine_lacks_are_left_out() -> None:
    assert available(["page_faults"]) == ("page_faults",)
    assert set(available(HARDWARE)) <= set(HARDWARE)
    with pytest.raises(ValueError, match="unknown counter"):
        _native.can_count(len(COUNTERS))
