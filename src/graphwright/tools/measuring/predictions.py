"""Compares predictions of the cost model with measured times: of each task, and of the largest merges."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from graphwright.compiler.driver import compile_module
from graphwright.compiler.recompile import unpacked_module
from graphwright.config import Options
from graphwright.errors import ModelError
from graphwright.fusion.traffic import NodeTraffic, node_traffic
from graphwright.ir.builtin.constant import Constant, constant_of
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.clone import clone_graph
from graphwright.ir.graph import Module, Node
from graphwright.ir.nesting import regions_of
from graphwright.ir.op import Array
from graphwright.loading import make_model
from graphwright.package.package import Package
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.passes.buckets import selected_graph
from graphwright.records import dataclass, replace
from graphwright.runtime.model import Model
from graphwright.tools.feeds import make_feeds
from graphwright.tools.measuring.bench import Ratio, TaskRow, paired_ratio, task_times

RUNS: Final = 21
"""The most traced runs; the time of a task is the median."""
SECONDS: Final = 3.0
"""The approximate seconds for the runs of one measurement."""
MERGES: Final = 3
"""The number of merges that are measured: those that save the most bytes."""
ROUNDS: Final = 15


@dataclass(frozen=True)
class MergeTime:
    """The time of a kernel of several ops compared with kernels for the single ops: medians in nanoseconds,
    and the paired ratio; below 1, the merge is a gain.
    """

    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    fused_ns: float
    apart_ns: float
    ratio: Ratio


@dataclass(frozen=True)
class Measurement:
    """``tasks`` are ordered by the error of the prediction, largest first."""

    tasks: Sequence[TaskRow]
    merges: Sequence[MergeTime]

    @property
    def predicted_ns(self) -> float:
        """The predicted time of all tasks that have a prediction."""
        return sum(task.predicted_ns for task in self.tasks)

    @property
    def measured_ns(self) -> float:
        """The measured time of the same tasks."""
        return sum(task.median_ns for task in self.tasks if task.predicted_ns)

    def facts(self) -> dict[str, Any]:
        """All values, under stable keys."""
        return {
            "threads": 1,
            "predicted_ns": self.predicted_ns,
            "measured_ns": self.measured_ns,
            "tasks": [
                {
                    "task": task.task,
                    "nodes": task.name,
                    "kernel": task.kernel,
                    "predicted_ns": task.predicted_ns or None,
                    "measured_ns": task.median_ns,
                }
                for task in self.tasks
            ],
            "merges": [
                {
                    "nodes": list(merge.nodes),
                    "ops": list(merge.ops),
                    "fused_ns": merge.fused_ns,
                    "apart_ns": merge.apart_ns,
                    "ratio": merge.ratio.median,
                    "ratio_low": merge.ratio.low,
                    "ratio_high": merge.ratio.high,
                }
                for merge in self.merges
            ],
        }


def measure(model: Model, feeds: Mapping[str, Array], options: Options) -> Measurement:
    """Runs ``model`` on one thread, and its largest merges fused and as single ops. Raises FeedError and
    RunError.
    """
    start = time.perf_counter()
    model.run(feeds)
    runs = int(SECONDS / (time.perf_counter() - start + 1e-9))
    rows = task_times(model, feeds, max(3, min(RUNS, runs)), threads=1)
    tasks = sorted(rows, key=lambda row: -abs(row.median_ns - row.predicted_ns) * bool(row.predicted_ns))
    shapes = [feeds[spec.name].shape for spec in model.inputs]
    merges = [] if model.states else largest_merges(model.entry_package(), shapes, options)
    return Measurement(tasks, merges)


def largest_merges(package: Package, shapes: Sequence[Sequence[int]], options: Options) -> list[MergeTime]:
    """The times of the regions that save the most bytes on inputs of ``shapes``, if their sizes follow from
    these.
    """
    module = unpacked_module(package)
    if any(value.type.shape is None for value in module.main.inputs):
        return []
    fed = {value.name: shape for value, shape in zip(module.main.inputs, shapes, strict=False)}
    shape_inputs(module, fed)
    graph = selected_graph(module, fed)
    fused = [node for node in graph.walk() if isinstance(node.op, Fused) and _is_static(node)]
    found = [(node_traffic(node, module.symbols), node) for node in fused]
    largest = sorted(found, key=lambda each: each[0].fused.total - each[0].unfused.total)[:MERGES]
    timed = [_timed(traffic, module, node, options) for traffic, node in largest if len(traffic.ops) > 1]
    return [merge for merge in timed if merge is not None]


def _is_static(node: Node) -> bool:
    region = region_of(node)
    values = [*region.inputs, *(value for inner in region for value in inner.outputs)]
    return all(value.type.is_static for value in values)


def _timed(traffic: NodeTraffic, module: Module, node: Node, options: Options) -> MergeTime | None:
    """The times of one region; None if it does not compile by itself."""
    try:
        together, apart = (
            region_model(module, node, replace(options, fusion_rules=rules, threads=1, targets=()))
            for rules in (options.fusion_rules, "none")
        )
    except ModelError:
        return None
    feeds = make_feeds(together.inputs, None, {})
    times = _in_turns([lambda: together.run(feeds), lambda: apart.run(feeds)])
    fused_ns, apart_ns = map(statistics.median, times)
    return MergeTime(traffic.sources, traffic.ops, fused_ns, apart_ns, paired_ratio(*times))


def region_model(module: Module, node: Node, options: Options) -> Model:
    """The region of ``node`` as a model, which contains its constant operands."""
    own = Module()
    region = clone_graph(region_of(node), "main")
    for position in reversed(range(len(node.inputs))):
        value, inner = node.inputs[position], region.inputs[position]
        constant = None if value is None else constant_of(value)
        if constant is not None:
            own.constants.add(module.constants[constant.value])
            first = next(iter(region), None)
            held = region.insert(Node(Constant(constant.value, constant.type), [], [inner.type]), first)
            region.replace_all_uses(inner, held.output)
            region.remove_input(position)
    for member in region:
        if isinstance(member.op, Constant) and member.op.value not in own.constants:
            own.constants.add(module.constants[member.op.value])
    for position, value in enumerate(region.inputs):
        value.name = f"operand_{position}"
    region.set_outputs(region.outputs, [f"result_{k}" for k in range(len(region.outputs))])
    own.add_graph(region)
    with regions_of(own):
        return make_model(compile_module(own, options), None, options)


def _in_turns(runs: Sequence[Callable[[], object]]) -> list[list[float]]:
    """The nanoseconds of each of ``runs`` in each round; they take turns."""
    times: list[list[float]] = [[] for _ in runs]
    calls = [_calls_of_a_turn(run) for run in runs]
    for _ in range(ROUNDS):
        for run, count, taken in zip(runs, calls, times, strict=True):
            start = time.perf_counter_ns()
            for _ in range(count):
                run()
            taken.append((time.perf_counter_ns() - start) / count)
    return times


def _calls_of_a_turn(run: Callable[[], object]) -> int:
    """The number of calls per turn such that all rounds take a share of :data:`SECONDS`."""
    run()
    start = time.perf_counter()
    run()
    once = time.perf_counter() - start
    return max(1, min(1000, int(SECONDS / MERGES / 2 / ROUNDS / (once + 1e-9))))
