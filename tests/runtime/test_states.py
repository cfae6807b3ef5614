"""States keep values between runs, and are updated in place if no later task reads the old value."""

from __future__ import annotations

import io
import os
import pickle
import signal
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.errors import FeedError, ModelError, OptionError, VerifyError
from graphwright.ir.graph import Role, Signature
from graphwright.ir.verify import verify
from graphwright.low_ir.tasks import Operand, Storage, TaskGraph, TaskKind
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.states import States
from tests.executables import host_program
from tests.runtime.counter import counter, options

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "reference")
HEADS, LENGTH, FEATURES = 2, 8, 4


def cached() -> gw.GraphBuilder:
    """A cache of keys, into which each run writes one row."""
    b = gw.GraphBuilder()
    cache = b.state("cache", "f32", (1, HEADS, LENGTH, FEATURES))
    row, at = b.input("row", "f32", (1, HEADS, 1, FEATURES)), b.input("at", "i64", (1,))
    written = b.tensor_scatter(cache, row, at)
    b.update(cache, written)
    b.output("total", b.reduce_sum(written, axes=(2,)))
    return b


def task_graph(model: gw.Model) -> TaskGraph:
    assert isinstance(model.executor, Cpu)
    return model.executor.task_graph


def writers_of_states(graph: TaskGraph) -> list[TaskKind]:
    """The kinds of the tasks that write states."""
    return [
        task.kind
        for task in graph.tasks
        for position in task.writes
        if isinstance(operand := task.operands[position], Operand)
        and graph.buffers[operand.buffer].storage is Storage.STATE
    ]


@pytest.mark.parametrize("device", DEVICES)
def test_a_state_is_zero_at_first_and_kept_between_runs(device: str) -> None:
    model = counter(device)
    assert [spec.name for spec in model.inputs] == ["x"]
    assert [spec.name for spec in model.outputs] == ["before"]
    results = [model(np.full(3, step, np.float32))[0] for step in (1, 2, 3)]
    np.testing.assert_array_equal(results, [[0] * 3, [1] * 3, [3] * 3])
    np.testing.assert_array_equal(model.states["count"], [6, 6, 6])


@pytest.mark.parametrize("device", DEVICES)
def test_every_way_to_run_updates_states(device: str) -> None:
    model, ones = counter(device), np.ones(3, np.float32)
    model(ones)
    model(x=ones)
    model.run({"x": ones})
    model.run({"x": ones}, out={"before": np.empty(3, np.float32)})
    model.listed(None, {"x": ones})
    model.trace({"x": ones})
    assert model.states["count"].tolist() == [6, 6, 6]


@pytest.mark.parametrize("device", DEVICES)
def test_a_state_begins_with_its_start_value(device: str) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", (3,))
    total, runs = b.state("total", "f32", (3,), start=[1, 2, 3]), b.state("runs", "i64", (), start=7)
    b.update(total, b.add(total, x))
    b.update(runs, b.add(runs, 1))
    b.output("before", total)
    data = io.BytesIO()
    first = b.compile(options(device=device))
    first.save(data)
    loaded = (
        gw.load(data.getvalue(), trust=trust, options=options(device=device)) for trust in (True, False)
    )
    for model in (first, *loaded):
        for _ in range(2):
            assert model(np.ones(3, np.float32))[0].tolist() == [1, 2, 3]
            assert model.states["total"].tolist() == [2, 3, 4] and model.states["runs"] == 8
            model.reset({"total": np.array([1, 2, 3], np.float32)})


def test_a_start_that_is_no_value_of_the_state_is_rejected() -> None:
    b = gw.GraphBuilder()
    with pytest.raises(gw.ModelError, match="the constant has type f32"):
        b.state("a", "f32", (3,), start=np.ones(2, np.float32))
    with pytest.raises(gw.ModelError, match="dynamic dimensions"):
        b.state("b", "f32", ("N",), start=0)


def test_results_do_not_change_with_later_runs() -> None:
    for device in DEVICES:
        model = counter(device)
        (first,) = model(np.ones(3, np.float32))
        model(np.ones(3, np.float32))
        assert first.tolist() == [0, 0, 0]


def test_a_cache_is_written_in_place() -> None:
    model = cached().compile(options())
    assert writers_of_states(task_graph(model)) == [TaskKind.LAUNCH, TaskKind.LAUNCH]  # check, and scatter
    assert all(task.kind is not TaskKind.COPY for task in task_graph(model).tasks)
    memory = model.states["cache"].__array_interface__["data"]
    expected = np.zeros((1, HEADS, LENGTH, FEATURES), np.float32)
    for step, at in enumerate((3, 0, 3)):
        row = np.full((1, HEADS, 1, FEATURES), step + 1, np.float32)
        expected[:, :, at] = row[:, :, 0]
        np.testing.assert_array_equal(model(row, np.array([at]))[0], expected.sum(2, keepdims=True))
        np.testing.assert_array_equal(model.states["cache"], expected)
    assert model.states["cache"].__array_interface__["data"] == memory


@pytest.mark.parametrize("trust", [True, False])
def test_a_package_keeps_its_states(trust: bool) -> None:
    data = io.BytesIO()
    cached().compile(options()).save(data)
    model = gw.load(data.getvalue(), trust=trust, options=options())
    assert [spec.name for spec in model.inputs] == ["row", "at"]
    for at in range(2):
        model(np.ones((1, HEADS, 1, FEATURES), np.float32), np.array([at]))
    assert model.states["cache"][0, 0, :, 0].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_copies_of_a_model_have_states_of_their_own() -> None:
    model = counter()
    model(np.ones(3, np.float32))
    for other in (pickle.loads(pickle.dumps(model)), model.__deepcopy__({})):
        assert other.states["count"].tolist() == [0, 0, 0]
        other(np.full(3, 5, np.float32))
    assert model.states["count"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("streams", [1, 3])
def test_states_may_change_places(device: str, streams: int) -> None:
    """The model computes a Fibonacci sequence: one state becomes what the other was."""
    b = gw.GraphBuilder()
    one, two = b.state("one", "i64", (1,)), b.state("two", "i64", (1,))
    b.update(one, two)
    b.update(two, b.add(one, two))
    b.output("y", one)
    model = b.compile(options(device, streams=streams))
    model.reset({"one": np.array([0]), "two": np.array([1])})
    assert [int(model()[0][0]) for _ in range(8)] == [0, 1, 1, 2, 3, 5, 8, 13]


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_random_updates_are_those_of_numpy(data: st.DataObject) -> None:
    """Sums, products and moves of three states and an input read old values before and after updates."""
    names, count = ("a", "b", "c"), data.draw(st.sampled_from((1, 7, 64)))
    terms = st.tuples(st.sampled_from(("add", "mul", "sub")), *(st.integers(0, 6) for _ in range(2)))
    steps = data.draw(st.lists(terms, min_size=3, max_size=6))
    chosen = data.draw(st.lists(st.integers(0, 3 + len(steps)), min_size=3, max_size=3))
    shown = data.draw(st.lists(st.integers(0, 3 + len(steps)), min_size=1, max_size=2))
    b = gw.GraphBuilder()
    values = [b.state(name, "i64", (count,)) for name in names] + [b.input("x", "i64", (count,))]
    for op, left, right in steps:
        values.append(getattr(b, op)(values[left % len(values)], values[right % len(values)]))
    for state, number in zip(values, chosen, strict=False):
        b.update(state, values[number])
    for k, number in enumerate(shown):
        b.output(f"y{k}", values[number])
    model = b.compile(options())
    kept = {name: np.arange(count) + k for k, name in enumerate(names)}
    model.reset(kept)
    for step in range(3):
        x = np.full(count, step + 2)
        found = [*kept.values(), x]
        for op, left, right in steps:
            apply = {"add": np.add, "mul": np.multiply, "sub": np.subtract}[op]
            found.append(apply(found[left % len(found)], found[right % len(found)]))
        for result, number in zip(model(x), shown, strict=True):
            np.testing.assert_array_equal(result, found[number])
        kept = {name: found[number] for name, number in zip(names, chosen, strict=True)}
        for name, value in kept.items():
            np.testing.assert_array_equal(model.states[name], value)


def test_a_model_of_several_programs_updates_states() -> None:
    """A NonZero determines a size, which requires a host program."""
    b = gw.GraphBuilder()
    x, most = b.input("x", "f32", (6,)), b.state("most", "i64", (1,))
    places = b.non_zero(x)
    b.update(most, b.max(most, b.reshape(b.reduce_max(places, keepdims=False), shape=(1,))))
    b.output("places", places)
    model = b.compile(options())
    assert host_program(model.package) is not None
    for place, known in ((2, 2), (5, 5), (1, 5)):
        x = np.zeros(6, np.float32)
        x[place] = 1
        assert model(x)[0].tolist() == [[place]]
        assert model.states["most"].tolist() == [known]


def test_a_state_with_dynamic_sizes_is_set_before_the_first_run() -> None:
    b = gw.GraphBuilder()
    x, total = b.input("x", "f32", ("N", 2)), b.state("total", "f32", ("N", 2))
    b.update(total, b.add(total, x))
    model = b.compile(options())
    x = np.ones((3, 2), np.float32)
    with pytest.raises(FeedError, match=r"total.*has dynamic dimensions and was not set"):
        model(x)
    for rows in (3, 1, 0):
        model.reset({"total": np.zeros((rows, 2), np.float32)})
        model(x[:rows])
        assert model.states["total"].tolist() == [[1, 1]] * rows
    with pytest.raises(FeedError):
        model(x)  # the state has no rows


def test_states_are_reset() -> None:
    model = counter()
    model(np.ones(3, np.float32))
    given = np.array([1, 2, 3], np.float32)
    model.reset({"count": given})
    model(np.ones(3, np.float32))
    assert model.states["count"].tolist() == [2, 3, 4]
    assert given.tolist() == [1, 2, 3]
    model.reset()
    assert model.states["count"].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        model.states["count"][0] = 1


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([np.zeros(3, np.float32)], "states must be a mapping from names to arrays, not list"),
        ({"cuont": np.zeros(3, np.float32)}, "no state 'cuont'"),
        ({"count": np.zeros(4, np.float32)}, r"'count' must be f32\[3\], but has shape \(4,\)"),
        ({"count": np.zeros(3, np.float64)}, r"'count' takes f32, not float64 .*\s*convert it"),
        ({"count": object()}, "'count' takes f32, not object "),
    ],
)
def test_invalid_states_are_rejected(states: Any, message: str) -> None:
    model = counter()
    model(np.ones(3, np.float32))
    with pytest.raises(FeedError, match=message):
        model.reset(states)
    assert model.states["count"].tolist() == [1, 1, 1]


def test_a_state_is_not_fed() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(FeedError, match="there is no input 'count'"):
        counter().run({"x": x, "count": x})
    with pytest.raises(FeedError, match="got 2 arrays for 1 input"):
        counter()(x, x)


def test_invalid_states_are_rejected_by_the_builder() -> None:
    b = gw.GraphBuilder()
    x, count = b.input("x", "f32", (3,)), b.state("count", "f32", (3,))
    with pytest.raises(ModelError, match="is not a state of this builder"):
        b.update(x, count)
    with pytest.raises(ModelError, match=r"a state f32\[3\] cannot become f32\[1\]"):
        b.update(count, b.reduce_sum(count))
    with pytest.raises(ModelError, match="'count' is empty or already taken"):
        b.state("count", "f32", (1,))
    b.update(count, b.add(count, x))
    with pytest.raises(ModelError, match="it is already updated"):
        b.update(count, x)
    with pytest.raises(OptionError, match="a model with states does not support gears"):
        b.compile(options(), gears={"x": [(3,)]})


def test_a_signature_that_contradicts_its_graph_is_a_fault() -> None:
    b = gw.GraphBuilder()
    count = b.state("count", "f32", (3,))
    b.update(count, b.relu(count))
    b.output("y", b.reduce_sum(count))
    module = b.build()
    for roles, aliases, message in (
        ((Role.STATE,), (), "each state must have one output"),
        ((Role.DATA,), ((1, 0),), "each state must have one output"),
        ((Role.STATE,), ((0, 0),), "is the next value of input 0"),
        ((Role.STATE,), ((5, 0),), "the graph has no output 5"),
    ):
        module.signatures["main"] = Signature(roles, aliases)
        with pytest.raises(VerifyError, match=message):
            verify(module)


def test_chosen_outputs_keep_the_updates() -> None:
    b = gw.GraphBuilder()
    x, count = b.input("x", "f32", (3,)), b.state("count", "f32", (3,))
    b.update(count, b.add(count, x))
    b.output("y", b.relu(count))
    b.output("z", b.neg(x))
    model = gw.compile(b.build(), outputs=["z"], options=options())
    model(np.ones(3, np.float32))
    assert [spec.name for spec in model.outputs] == ["z"]
    assert model.states["count"].tolist() == [1, 1, 1]
    assert "states   count: f32[3]" in repr(model)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_that_is_forked_during_a_run_has_states_of_its_own() -> None:
    """The child lacks the thread that runs and holds the lock."""
    model, ones = counter(), np.ones(3, np.float32)
    model(ones)
    runs, forked, states = threading.Event(), threading.Event(), model.states
    assert isinstance(states, States)

    def run() -> None:
        with states.lock:
            runs.set()
            forked.wait()

    thread = threading.Thread(target=run)
    thread.start()
    runs.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        model(ones)
        os._exit(0 if model.states["count"].tolist() == [2, 2, 2] else 1)
    forked.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert model.states["count"].tolist() == [1, 1, 1]
