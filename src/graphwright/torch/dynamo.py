"""The backend of ``torch.compile``: it compiles the graphs that PyTorch captures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx
from torch._dynamo.backends.common import aot_autograd

from graphwright._native import TensorDispatch
from graphwright.frontends.torch.decompositions import decompositions
from graphwright.frontends.torch.graph import ReadGraph, read_graph
from graphwright.frontends.torch.hints import drop_hints, refuse_split_groups
from graphwright.frontends.torch.partition import partition
from graphwright.torch.captured import current_backend
from graphwright.torch.compiled_graph import CompiledGraph, PartitionedGraph, SubgraphModule
from graphwright.torch.eager_graph import EagerGraph, NanCheck
from graphwright.torch.metadata import is_plain, parameters
from graphwright.torch.reports import Break, GraphReport, record
from graphwright.torch.settings import Settings
from graphwright.torch.views import data_dependent_views, take_views


def backend(
    module: fx.GraphModule,
    examples: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The function that ``torch.compile`` calls with each captured graph. ``options`` are those of
    ``graphwright.compile`` and of :class:`Settings`. Raises OptionError.
    """
    settings = Settings.of(mode, options)
    broken, name, captured_for = Break.of(module), str(module.meta.get("backend_id", "")), current_backend()
    direct: list[Callable[..., Any]] = []

    def compiler(kind: str) -> Callable[..., Any]:
        def compile_graph(graph: fx.GraphModule, fakes: Sequence[Any]) -> Callable[..., Any]:
            start = time.perf_counter()
            if kind == "backward":
                drop_hints(graph.graph)
            dependent, views = data_dependent_views(graph.graph), take_views(graph)
            reading = read_graph(graph.graph, graph)
            reading.unsupported.update(dependent)
            report = GraphReport.of(kind, graph.graph, reading.unsupported, broken)
            record(report, name, captured_for, settings.strict)
            run = _executor(graph, reading, settings, report)
            if views is not None:
                run = views.restoring(run, reading.interface.number)
            report.seconds += time.perf_counter() - start
            if kind == "inference" and not reading.unsupported and len(fakes) == len(examples) and is_plain():
                direct.append(run)
            return _boxed(run)

        return compile_graph

    aot_backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )
    wrapped: Callable[..., Any] = aot_backend(module, examples)
    return direct[0] if direct else wrapped


def _executor(
    graph: fx.GraphModule, reading: ReadGraph, settings: Settings, report: GraphReport
) -> Callable[..., Any]:
    """A function that runs ``graph``: as a whole, in parts if PyTorch has to run some operators, or op by
    op.
    """
    if settings.eager:
        checks = (NanCheck(),) if settings.check_nan else ()
        hooks = (*checks, *(() if settings.hook is None else (settings.hook,)))
        return EagerGraph(graph, settings.options, report, hooks)
    if not reading.unsupported:
        # AOTAutograd knows which inputs of a forward graph are parameters; those of a backward graph are not
        frozen = parameters() if report.kind == "inference" else frozenset()
        releases = settings.release_weights
        is_guarded = report.kind != "backward"
        return CompiledGraph(graph, reading, settings.options, frozen, report, releases, is_guarded).call
    names = partition(graph, reading.unsupported)
    report.parts = len(names)
    parts: dict[str, Any] = {name: graph.get_submodule(name) for name in names}
    refuse_split_groups([part.graph for part in parts.values()], reading.unsupported)
    compiled: list[CompiledGraph] = []
    for name, part in parts.items():
        single = not isinstance(part.graph.output_node().args[0], list | tuple)
        read = read_graph(part.graph, part)
        if not read.unsupported:  # otherwise its arguments cannot be fed, and PyTorch runs it
            compiled.append(CompiledGraph(part, read, settings.options, frozenset(), report))
            setattr(graph, name, SubgraphModule(compiled[-1], single))
    return PartitionedGraph(graph, compiled)


def _boxed(run: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """``run`` with the calling convention of AOTAutograd: one list of arguments, which the callee empties."""
    if isinstance(run, TensorDispatch):
        run._boxed_call = True  # AOTAutograd checks this attribute
        return run

    def call(arguments: list[Any]) -> Any:
        given = list(arguments)
        arguments.clear()
        return run(*given)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
