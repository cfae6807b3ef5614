"""The tuning search: compiles programs in which workloads are computed in other ways, times them against the
current program, and takes the alternatives that are clearly faster.

One trial changes many workloads at once, of which no two share a task, as tasks are timed individually. At
the end, all changes together are measured again against the program without them: the measurement that led to
a choice is biased towards gains, and a change may cost time elsewhere.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from graphwright.cost.choices import Choice
from graphwright.ir.arrays import np
from graphwright.option_files.tuning_records import Measured, Times, Workloads
from graphwright.records import dataclass, field, replace
from graphwright.support.message_text import counted
from graphwright.tuning.paired_timing import ChangedTasks, compare, is_gain
from graphwright.tuning.trial import Trial, closure, numbers_in, part_of

SHORT: Final = 0.003
"""The least share of the model's time at which a workload is measured."""
AWAITED: Final = 0.01
"""The least share of the model's time at which more samples are taken for a workload."""
CONFIRMING: Final = 0.25
"""The share of the time that is reserved to confirm the changes at the end."""
MOST_ROUNDS: Final = 6
"""The most trials that the remaining time is divided among."""
MOST_MEETINGS: Final = 3
"""The most trials in which the change of a workload conflicts with another change, before it is given up."""
WHOLE: Final = ""
"""The name of the part that is the whole model."""

Compile = Callable[[Workloads], Trial]
"""Compiles the model with the measurements of workloads so far."""


@dataclass(frozen=True)
class Workload:
    """A workload of a program: its alternatives, the nodes of all its occurrences, and their time."""

    choice: Choice
    nodes: frozenset[int]
    tasks: frozenset[int]
    share: float
    """Its share of the model's time."""


@dataclass
class Search:
    """Measures one model until ``end`` on the clock of ``time.perf_counter``."""

    compiled: Compile
    end: float
    progress: Callable[[str], None] = lambda text: None
    learned: dict[str, Measured] = field(default_factory=dict)
    """The measurements of workloads."""
    tried: int = 0
    """The number of alternatives that were measured."""
    left: int = 0
    """The number of alternatives that there was no time to measure."""
    _meetings: Counter[str] = field(default_factory=Counter)
    _reach: dict[str, frozenset[int]] = field(default_factory=dict)
    """For each workload, the nodes that a trial computed together with its own."""

    def run(self) -> None:
        """Runs the search; it adds measurements to :attr:`learned`."""
        base = self.compiled(self.learned)
        while self._open(base):
            known = dict(self.learned)
            last = self._improved(base)
            changed = [
                name for name, each in self.learned.items() if each.taken != _before(name, each, known)
            ]
            if changed:
                self._confirm(base, last, changed, known)
            # With the new measurements, the program may have workloads that no program before had.
            base = self.compiled(self.learned)
            if self.learned == known or time.perf_counter() >= self.end:
                break
        self.left = sum(len(self._unmeasured(each.choice)) for each in self._workloads(base))

    def _improved(self, base: Trial) -> Trial:
        """The program with all changes that were measured to be gains, starting from ``base``."""
        end = self.end - CONFIRMING * (self.end - time.perf_counter())
        while workloads := self._open(base):
            found = self._round(base, workloads, end)
            if found is None:
                break
            if any(map(is_gain, found.values())):
                base = self.compiled(self.learned)
        return base

    # -- one trial

    def _round(self, base: Trial, workloads: Sequence[Workload], end: float) -> dict[str, Times] | None:
        """Measures one other alternative of many workloads that share no task; None if the time is over."""
        picks = self._picks(base, workloads)
        count = sum(len(self._unmeasured(each.choice)) for each in workloads)
        self.progress(f"measuring {len(picks)} of {counted(count, 'alternative')}")
        alternatives = {name: self._unmeasured(each.choice)[0] for name, each in picks.items()}
        trial = self.compiled(
            {**self.learned, **{name: Measured(each, {}, each) for name, each in alternatives.items()}}
        )
        reach = {name: closure(base, trial, each.nodes) for name, each in picks.items()}
        apart = self._independent(reach, picks)
        parts = {name: part_of(base, trial, reach[name]) for name in apart}
        if not parts:
            return {}
        left = end - time.perf_counter()
        rounds = max(Counter(task for each in workloads for task in each.tasks).values())
        found = compare(
            base.timed,
            trial.timed,
            parts,
            lambda name: picks[name].share >= AWAITED,
            left / min(rounds, MOST_ROUNDS),
            end,
        )
        self.tried += len(found)
        for name, times in found.items():
            self._learn(picks[name].choice, alternatives[name], times)
        return found or None

    def _picks(self, base: Trial, workloads: Sequence[Workload]) -> dict[str, Workload]:
        """Workloads that share no task, by decreasing time."""
        claimed: set[int] = set()
        picks: dict[str, Workload] = {}
        for each in sorted(workloads, key=lambda each: -each.share):
            tasks = each.tasks | set(base.tasks_of(self._reach.get(each.choice.workload, frozenset())))
            if claimed.isdisjoint(tasks):
                claimed |= tasks
                picks[each.choice.workload] = each
        return picks

    def _independent(self, reach: Mapping[str, frozenset[int]], picks: Mapping[str, Workload]) -> list[str]:
        """The workloads whose tasks no other change affects; the others are tried again one by one."""
        owners = Counter(node for nodes in reach.values() for node in nodes)
        apart = []
        for name, nodes in reach.items():
            if all(owners[node] == 1 for node in nodes):
                apart.append(name)
                continue
            self._reach[name] = nodes
            self._meetings[name] += 1
            if self._meetings[name] >= MOST_MEETINGS:
                choice = picks[name].choice
                self._enter(choice, self._unmeasured(choice)[0], None)
        return apart

    # -- what is known

    def _open(self, base: Trial) -> list[Workload]:
        """The workloads of ``base`` that have alternatives to measure and are long enough."""
        workloads = []
        for each in self._workloads(base):
            if each.share >= SHORT:
                workloads.append(each)
                continue
            for alternative in self._unmeasured(each.choice):
                self._enter(each.choice, alternative, None)
        return workloads

    def _workloads(self, base: Trial) -> list[Workload]:
        """The workloads of ``base`` that have an alternative which was not measured."""
        found: dict[str, list[Choice]] = {}
        for choice in reversed(base.choices):  # kernels before merges, which take a compilation
            if self._unmeasured(choice):
                found.setdefault(choice.workload, []).append(choice)
        if not found:
            return []
        times = np.min([base.timed.times() for _ in range(3)], axis=0)
        whole = max(int(times.sum()), 1)
        workloads = []
        for choices in found.values():
            nodes = frozenset().union(*(numbers_in(choice.nodes) for choice in choices))
            tasks = base.tasks_of(nodes)
            workloads.append(Workload(choices[0], nodes, frozenset(tasks), int(times[tasks].sum()) / whole))
        return workloads

    def _unmeasured(self, choice: Choice) -> list[str]:
        """The alternatives that were not measured yet."""
        known = self.learned.get(choice.workload)
        if known is None:
            return list(choice.alternatives[1:])
        return [each for each in choice.alternatives if not known.knows(each)]

    def _learn(self, choice: Choice, alternative: str, times: Times) -> None:
        """Records the time of ``alternative`` relative to the current one, and takes it if it is a gain."""
        self._enter(choice, alternative, times.scaled(_time_of_taken(self.learned.get(choice.workload))))
        if is_gain(times):
            self.learned[choice.workload] = replace(self.learned[choice.workload], taken=alternative)

    def _enter(self, choice: Choice, alternative: str, times: Times | None) -> None:
        predicted = choice.alternatives[0]
        known = self.learned.get(choice.workload, Measured(predicted, {}, predicted))
        self.learned[choice.workload] = replace(known, times={**known.times, alternative: times})

    # -- what was taken, once more

    def _confirm(self, first: Trial, last: Trial, changed: Sequence[str], known: Workloads) -> None:
        """Reverts the changes that save no time in the program with all changes, or all changes if that
        program is not faster.
        """
        self.progress(f"confirming {len(changed)} changes")
        nodes: dict[str, frozenset[int]] = {}
        for choice in last.choices:
            if choice.workload in changed:
                nodes[choice.workload] = nodes.get(choice.workload, frozenset()) | numbers_in(choice.nodes)
        parts = {name: part_of(first, last, closure(first, last, each)) for name, each in nodes.items()}
        whole = ChangedTasks(first.whole, last.whole)
        seconds = self.end - time.perf_counter()
        found = compare(
            first.timed, last.timed, {**parts, WHOLE: whole}, lambda name: True, seconds, self.end
        )
        if not found:
            for name in changed:  # they stay open
                del self.learned[name]
            self.learned |= {name: known[name] for name in changed if name in known}
            return
        is_faster = found[WHOLE].median < 1
        for name in changed:
            held, times = self.learned[name], found.get(name)
            kept = is_faster and times is not None and is_gain(times)
            fresh = held.times[held.taken] if times is None else times.scaled(_time_of_taken(known.get(name)))
            taken = held.taken if kept else _before(name, held, known)
            self.learned[name] = replace(held, taken=taken, times={**held.times, held.taken: fresh})


def _before(name: str, measured: Measured, known: Workloads) -> str:
    """The alternative that the workload ``name`` took before it was ``measured``: the known one, or else the
    predicted one.
    """
    return known[name].taken if name in known else measured.base


def _time_of_taken(known: Measured | None) -> float:
    """The time of the alternative that is taken, relative to the predicted one."""
    times = None if known is None else known.times.get(known.taken)
    return 1.0 if times is None else times.median
