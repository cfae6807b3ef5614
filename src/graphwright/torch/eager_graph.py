"""Runs a graph of ``torch.compile`` operator by operator, so that hooks can inspect all results."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from graphwright.config import Options
from graphwright.errors import GraphwrightError
from graphwright.frontends.torch.decompositions import operands
from graphwright.frontends.torch.graph import COPY_BACK, read_graph
from graphwright.frontends.torch.source_lines import user_line
from graphwright.ir.text.printer import print_module
from graphwright.records import dataclass, replace
from graphwright.runtime.executor import RunError
from graphwright.runtime.first_nan import first_nan
from graphwright.torch.compiled_graph import CompiledGraph
from graphwright.torch.reports import GraphReport


@dataclass(frozen=True)
class OperatorResult:
    """The results of one operator of a run: ``line`` is the user's source line, and ``by_pytorch`` says
    whether PyTorch ran the operator instead of graphwright.
    """

    name: str
    operator: str
    line: str
    results: tuple[Any, ...]
    by_pytorch: bool

    def __str__(self) -> str:
        where = f" ({self.line})" if self.line else ""
        return f"{self.name} = {self.operator}{where}"


Hook = Callable[[OperatorResult], object]
"""Called after each operator, in the order of the graph."""


class EagerGraph:
    """Compiles each operator as a graph of its own, and runs these graphs in order. Equal operators share a
    program.
    """

    def __init__(
        self, graph: fx.GraphModule, options: Options, report: GraphReport, hooks: Sequence[Hook]
    ) -> None:
        self._graph, self._options, self._report, self._hooks = graph, options, report, hooks
        self._equal: dict[str, CompiledGraph] = {}
        calls = [node for node in graph.graph.nodes if node.op == "call_function"]
        self._alone = {
            node: self._compiled(node) for node in calls if node.target not in (operator.getitem, COPY_BACK)
        }
        report.parts = len(self._equal)

    def __call__(self, *arguments: Any) -> Any:
        """Runs the graph. Several threads may call it at the same time."""
        return _Run(self._graph, self._alone, self._hooks).run(*arguments)

    def _compiled(self, node: fx.Node) -> CompiledGraph | None:
        """``node``, compiled as a graph of its own; None if PyTorch has to run it."""
        fakes = node.meta.get("val")
        if not any(isinstance(each, torch.Tensor) for each in _as_sequence(fakes)):
            return None
        graph = _graph_of(node, fakes)
        module = fx.GraphModule(self._graph, graph)
        reading = read_graph(graph, module)
        if reading.unsupported:
            return None
        kind = f"{print_module(reading.module)} {reading.interface}"
        if kind not in self._equal:
            self._equal[kind] = CompiledGraph(module, reading, self._options, frozenset(), self._report)
        return self._equal[kind]


class _Run(fx.Interpreter):
    """One run of a graph."""

    def __init__(
        self, graph: fx.GraphModule, alone: Mapping[fx.Node, CompiledGraph | None], hooks: Sequence[Hook]
    ) -> None:
        super().__init__(graph)
        self._alone, self._hooks = alone, hooks

    def run_node(self, n: fx.Node) -> Any:
        """Runs one node, and then calls the hooks."""
        alone = self._alone.get(n)
        if alone is None:
            result = super().run_node(n)
        else:
            results = self._alone_results(alone, n)
            result = tuple(results) if isinstance(n.meta["val"], tuple | list) else results[0]
        if n in self._alone:
            step = OperatorResult(
                n.name, str(n.target), "".join(user_line(n)), tuple(_as_sequence(result)), alone is None
            )
            for hook in self._hooks:
                hook(step)
        return result

    def _alone_results(self, alone: CompiledGraph, node: fx.Node) -> list[Any]:
        try:
            return alone.call(*[self.env[each] for each in operands(node)])
        except GraphwrightError as error:  # it names nodes of a graph that equal operators share
            where = f"{node.name} ({''.join(user_line(node))})"
            raise type(error)(*(replace(each, where=where) for each in error.diagnostics)) from error


class NanCheck:
    """A hook that raises RunError at the first operator whose results contain NaN."""

    def __call__(self, step: OperatorResult) -> None:
        """Raises RunError if a result of ``step`` contains NaN."""
        for number, result in enumerate(step.results):
            if not isinstance(result, torch.Tensor) or not result.is_floating_point():
                continue
            count = int(result.isnan().sum())
            if count:
                which = f"result {number} of " if len(step.results) > 1 else ""
                where = f"{step.name} ({step.line})" if step.line else step.name
                raise RunError(first_nan(f"{which}{step.operator}", count, result.numel(), where))


def _graph_of(node: fx.Node, fakes: Any) -> fx.Graph:
    """A graph that contains only ``node``, with its :func:`operands` as inputs."""
    graph = fx.Graph()
    inputs = {each: _placeholder(graph, each, k) for k, each in enumerate(operands(node))}
    copy = graph.node_copy(node, lambda each: inputs[each] if each in inputs else graph.node_copy(each))
    copy.name = "result"  # so that equal operators have equal graphs
    if not isinstance(fakes, tuple | list):
        graph.output((copy,))
        return graph
    items = []
    for number, fake in enumerate(fakes):
        item = graph.call_function(operator.getitem, (copy, number))
        item.meta["val"] = fake
        items.append(item)
    graph.output(tuple(items))
    return graph


def _placeholder(graph: fx.Graph, node: fx.Node, number: int) -> fx.Node:
    placeholder = graph.placeholder(f"input_{number}")
    placeholder.meta["val"] = node.meta.get("val")
    return placeholder


def _as_sequence(fakes: Any) -> Sequence[Any]:
    return fakes if isinstance(fakes, tuple | list) else (fakes,)
