"""The search and its statistics, on programs whose task times are given."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphwright.cost.choices import Choice
from graphwright.option_files.tuning_records import Measured, Times, Workloads
from graphwright.records import replace
from graphwright.runtime.executor import NoFastPath
from graphwright.tuning.interval import LOOKS, interval, rank
from graphwright.tuning.paired_timing import ChangedTasks, Timed, compare, is_gain
from graphwright.tuning.search import Search
from graphwright.tuning.trial import Trial, closure, number_nodes, numbers_in
from tests.fusion.support import module_of

MINUTE = 60.0
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Idle:
    """An executor that does nothing, with what says how long its tasks take."""

    def __init__(self, times: Callable[[], Sequence[float]]) -> None:
        self.times = times

    def fast_path(self, threads: int) -> NoFastPath:
        return NoFastPath(threads)

    def run(self, arrays: object, outputs: object, threads: int) -> list[np.ndarray]:
        return []

    def trim(self) -> int:
        return 0

    def stats(self) -> dict[str, int]:
        return {}


class Clocked(Timed):
    """A program whose tasks take what its executor says, and a run nothing of the test's time."""

    def times(self) -> np.ndarray:
        assert isinstance(self.executor, Idle)
        return np.array([round(ns) for ns in self.executor.times()], np.int64)


def timed(times: Callable[[], Sequence[float]]) -> Timed:
    return Clocked(Idle(times), (), len(times()))


def noisy(*means: float, seed: int = 0) -> Callable[[], Sequence[float]]:
    """Times that are never below their means, and up to twice as long."""
    source = random.Random(seed)
    return lambda: [mean * (1 + source.random() ** 3) for mean in means]


def in_turns(before: Timed, after: Timed, tasks: int) -> dict[str, Times]:
    parts = {str(k): ChangedTasks([k], [k]) for k in range(tasks)}
    return compare(before, after, parts, lambda name: True, MINUTE, time.perf_counter() + MINUTE)


def test_a_gain_is_found_and_noise_is_none() -> None:
    found = in_turns(timed(noisy(1e6, 1e6, 1e6)), timed(noisy(8e5, 1e6, 1.2e6, seed=1)), 3)
    assert is_gain(found["0"]) and 0.7 < found["0"].median < 0.9
    assert not is_gain(found["1"]) and not is_gain(found["2"])
    assert found["1"].low <= 1 <= found["1"].high or abs(found["1"].median - 1) < 0.03


def test_a_gain_below_three_percent_is_ignored() -> None:
    exact = timed(lambda: [1e6])
    found = in_turns(exact, timed(lambda: [9.8e5]), 1)
    assert found["0"] == Times(0.98, 0.98, 0.98) and not is_gain(found["0"])


def test_without_time_nothing_is_found() -> None:
    side, part = timed(lambda: [1.0]), ChangedTasks([0], [0])
    assert compare(side, side, {"a": part}, lambda name: True, MINUTE, time.perf_counter() - 1) == {}


@SETTINGS
@given(st.lists(st.floats(0.1, 10), min_size=LOOKS[0], max_size=50))
def test_the_interval_holds_the_median(samples: list[float]) -> None:
    low, high = interval(samples)
    assert low <= float(np.median(samples)) <= high


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    source = random.Random(3)
    count, held = 13, 0
    for _ in range(2000):
        low, high = interval([source.gauss(0, 1) for _ in range(count)])
        held += low <= 0 <= high
    assert held >= 0.975 * 2000
    assert rank(5) == 0 and interval([1.0] * 5) == (-np.inf, np.inf)


Cost = Callable[[Mapping[str, str]], Sequence[tuple[set[int], float]]]
"""What tasks a program has with these alternatives by workload: the nodes of each, and nanoseconds."""


class Compiler:
    """Compiles a model of given workloads."""

    def __init__(
        self, alternatives: Mapping[str, Sequence[str]], nodes: Mapping[str, set[int]], cost: Cost
    ) -> None:
        self.alternatives, self.nodes, self.cost = alternatives, nodes, cost
        self.compiled = 0

    def __call__(self, workloads: Workloads) -> Trial:
        self.compiled += 1
        taken = {
            name: workloads[name].taken if name in workloads else w[0]
            for name, w in self.alternatives.items()
        }
        tasks = self.cost(taken)
        choices = [
            Choice(
                tuple(alternatives),
                taken[name],
                name,
                nodes=frozenset(f"\x1f{k}\x1f" for k in self.nodes[name]),
                measured=workloads.get(name),
            )
            for name, alternatives in self.alternatives.items()
        ]
        return Trial(
            timed(lambda: [ns for _, ns in tasks]), [frozenset(nodes) for nodes, _ in tasks], choices
        )


def searched(compiler: Compiler, seconds: float = MINUTE, known: Workloads | None = None) -> Search:
    search = Search(compiler, time.perf_counter() + seconds, learned=dict(known or {}))
    search.run()
    return search


def test_the_fastest_alternative_of_each_workload_is_chosen() -> None:
    times = {"a": {"x": 100.0, "y": 90.0, "z": 50.0}, "b": {"x": 10.0, "y": 99.0}}

    def cost(taken: Mapping[str, str]) -> Sequence[tuple[set[int], float]]:
        return [({0}, 1e4 * times["a"][taken["a"]]), ({1}, 1e4 * times["b"][taken["b"]])]

    search = searched(Compiler({name: list(t) for name, t in times.items()}, {"a": {0}, "b": {1}}, cost))
    assert search.learned["a"].taken == "z" and search.learned["b"].taken == "x"
    assert search.learned["a"].base == "x"
    assert {w: t and t.median for w, t in search.learned["a"].times.items()} == {
        "y": pytest.approx(0.9),
        "z": pytest.approx(0.5),
    }
    assert (search.tried, search.left) == (3, 0)


def test_known_measurements_are_not_repeated() -> None:
    known = {"a": Measured("x", {"y": Times(0.5, 0.5, 0.5)}, "y")}
    compiler = Compiler({"a": ["x", "y"]}, {"a": {0}}, lambda taken: [({0}, 1e5)])
    search = searched(compiler, known=known)
    assert (compiler.compiled, search.tried, search.learned) == (1, 0, known)


def test_a_change_that_makes_other_tasks_slower_is_reverted() -> None:
    def cost(taken: Mapping[str, str]) -> Sequence[tuple[set[int], float]]:
        faster = taken["a"] == "y"
        return [({0}, 5e5 if faster else 1e6), ({1}, 2e6 if faster else 1e6)]

    search = searched(Compiler({"a": ["x", "y"]}, {"a": {0}}, cost))
    assert search.learned["a"].taken == "x", "the whole model is slower"
    assert search.learned["a"].knows("y")


def test_workloads_that_appear_with_a_reverted_change_are_measured() -> None:
    """``a`` seems faster at first and is reverted; ``c`` exists only with ``b`` changed and ``a``
    unchanged.
    """

    class Late(Compiler):
        def __call__(self, workloads: Workloads) -> Trial:
            made = super().__call__(workloads)
            taken = {choice.workload: choice.taken for choice in made.choices}
            if (taken["a"], taken["b"]) == ("x", "y"):
                return made
            return replace(made, choices=[choice for choice in made.choices if choice.workload != "c"])

    def cost(taken: Mapping[str, str]) -> Sequence[tuple[set[int], float]]:
        a = 1e6 if taken["a"] == "x" else 5e5 if compiler.compiled == 2 else 1.2e6
        b, c = (1e6 if taken["b"] == "x" else 1e5), (1e6 if taken["c"] == "x" else 5e5)
        return [({0}, a), ({1}, b), ({2}, c)]

    names = "abc"
    compiler = Late({n: ["x", "y"] for n in names}, {n: {k} for k, n in enumerate(names)}, cost)
    search = searched(compiler)
    assert {name: each.taken for name, each in search.learned.items()} == {"a": "x", "b": "y", "c": "y"}
    assert search.left == 0


def test_changes_that_share_a_kernel_are_tried_apart() -> None:
    """If both change, the kernels of two workloads become one: each change alone is faster, both are
    slower.
    """

    def cost(taken: Mapping[str, str]) -> Sequence[tuple[set[int], float]]:
        if taken["a"] == taken["b"] == "y":
            return [({0, 1}, 4e6)]
        return [({k}, 9e5 if taken[name] == "y" else 1e6) for k, name in enumerate("ab")]

    alternatives = {"a": ["x", "y"], "b": ["x", "y"]}
    search = searched(Compiler(alternatives, {"a": {0}, "b": {1}}, cost))
    assert sorted(each.taken for each in search.learned.values()) == ["x", "y"]


def test_short_workloads_are_not_measured() -> None:
    def cost(taken: Mapping[str, str]) -> Sequence[tuple[set[int], float]]:
        return [({0}, 1e3 if taken["a"] == "x" else 1.0), ({1}, 1e6)]

    search = searched(Compiler({"a": ["x", "y"]}, {"a": {0}}, cost))
    assert search.learned == {"a": Measured("x", {"y": None}, "x")}


def test_without_time_alternatives_stay_unmeasured() -> None:
    compiler = Compiler({"a": ["x", "y"]}, {"a": {0}}, lambda taken: [({0}, 1e5)])
    search = searched(compiler, seconds=0)
    assert (search.learned, search.tried, search.left) == ({}, 0, 1)


def test_the_search_ends_if_changes_always_share_a_task() -> None:
    compiler = Compiler(
        {"a": ["x", "y"], "b": ["x", "y"]},
        {"a": {0}, "b": {1}},
        lambda taken: [({0, 1}, 1e5)] if "y" in taken.values() else [({0}, 5e4), ({1}, 5e4)],
    )
    search = searched(compiler)
    assert search.left == 0 and {each.taken for each in search.learned.values()} == {"x"}


@SETTINGS
@given(st.lists(st.frozensets(st.integers(0, 8), max_size=3), max_size=6), st.data())
def test_a_closure_contains_whole_tasks(tasks: list[frozenset[int]], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.frozensets(st.integers(0, 8), max_size=3), max_size=6))
    start = data.draw(st.frozensets(st.integers(0, 8), min_size=1, max_size=2))
    side = timed(lambda: [0.0])
    reached = closure(Trial(side, tasks, ()), Trial(side, others, ()), start)
    assert start <= reached
    assert all(task <= reached or task.isdisjoint(reached) for task in itertools.chain(tasks, others))


def test_numbers_survive_in_names() -> None:
    lines = ('%a = Exp(%x): f32[8] from "a"', '%b = Neg(%a): f32[8] from "b #3"', "return %b")
    module = module_of("%x: f32[8]", *lines)
    number_nodes(module)
    found: Iterator[frozenset[int]] = (numbers_in(node.sources) for node in module.walk())
    assert list(found) == [frozenset({k}) for k in range(sum(1 for _ in module.walk()))]
    assert numbers_in([" + ".join(node.sources) for node in module.walk()]) == frozenset(
        range(sum(1 for _ in module.walk()))
    )
