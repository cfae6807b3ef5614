"""Compiles and runs a whole graph of ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.autograd import profiler
from torch.autograd.graph import increment_version

from graphwright._native import TensorDispatch, TensorFastPath
from graphwright.api import compile, compile_with_weights
from graphwright.config import Options
from graphwright.frontends.torch.graph import ReadGraph
from graphwright.frontends.torch.interface import Input
from graphwright.frontends.torch.types import dlpack_type
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.log import info
from graphwright.package.weights import Region
from graphwright.passes.model_interface import bind_constants
from graphwright.program_cache import MOST_WEIGHTS, ProgramCache, program_key
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.model import Model
from graphwright.support.background import BackgroundTask
from graphwright.support.fork_lock import ForkLock
from graphwright.torch.frozen_models import FrozenModel, FrozenModels, drop_stale_models, weights_with
from graphwright.torch.parameters import FrozenParameters, Snapshot, sampled_bytes
from graphwright.torch.released import refuse_released, release
from graphwright.torch.reports import GraphReport

MAX_OWNERS = 64
"""The most models of one graph: modules that share a graph have models with their own parameters."""


class CompiledGraph:
    """A graph that is compiled at the first call, when the parameters are known: they become constants, which
    are packed for kernels.

    Each run first compares the address and version of each parameter with those at compile time. Parameters
    that were loaded, replaced or written to are packed again. Several threads may call it.
    """

    def __init__(
        self,
        graph: fx.GraphModule,
        reading: ReadGraph,
        options: Options,
        frozen: frozenset[int],
        report: GraphReport,
        releases: bool = False,
        is_guarded: bool = False,
    ) -> None:
        """``frozen`` are the arguments that are parameters or buffers; with ``releases``, their memory is
        freed after packing. ``is_guarded``: dynamo checks that arguments are negated or conjugated when they
        are read if and only if the examples were.
        """
        self._is_guarded = is_guarded
        self._releases = releases
        self._graph = graph
        self._module, self._interface = reading.module, reading.interface
        self._options, self._report = options, report
        self._frozen = FrozenParameters(frozen & {each.position for each in reading.interface.inputs})
        self._lock = ForkLock()
        self._dispatch = TensorDispatch(self._run)
        self._dispatch.watch(vars(profiler), "_is_profiler_enabled", self._framed)
        self._models = FrozenModels(self._dispatch)
        self._compiled_ahead: Model | None = None
        outputs, changed = self._interface.outputs, self._interface.changed
        self._is_plain = all(each.is_in_order for each in outputs) and not changed

    @property
    def call(self) -> Callable[..., list[Any]]:
        """Runs the graph on its arguments and returns a list of its results."""
        return self._dispatch if self._is_plain else self._call

    def compile_ahead(self) -> None:
        """Compiles the graph, which has no parameters, before its first call."""
        with self._lock:
            if self._compiled_ahead is None and not len(self._models):
                self._compiled_ahead = self._compiled(())

    def _call(self, *arguments: Any) -> list[Any]:
        results = self._dispatch(*arguments)
        if self._interface.changed:
            increment_version([arguments[k] for k in self._interface.changed])
        return self._interface.results(results, arguments)

    def _framed(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Runs the graph as a frame of PyTorch's profiler, which is recording."""
        with profiler.record_function(f"graphwright: {self._report.kind} graph"):
            return self._dispatch.run(arguments)

    def _run(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Runs a call without the fast path. Arguments that the graph changes are written in place."""
        if not all(each.accepts(arguments[each.position]) for each in self._interface.inputs):
            given = self._graph(*arguments)
            return self._interface.outputs_of(given if isinstance(given, list | tuple) else (given,))
        with self._lock:
            model, fed = self._frozen_model(arguments).model, self._fed()
        arrays = [each.array(arguments[each.position]) for each in fed]
        results = model.recording_executor.run(arrays, None, model.threads)
        for each, array in zip(fed, arrays, strict=True):
            if each.position in self._interface.changed:
                each.write(array, arguments[each.position])
        return self._interface.tensors(results)

    def _fed(self) -> list[Input]:
        return [each for each in self._interface.inputs if each.position not in self._frozen]

    def _frozen_model(self, arguments: tuple[Any, ...]) -> FrozenModel:
        """The model that contains these parameters as constants."""
        # PyTorch does not count versions of such tensors
        self._thaw([position for position in self._frozen if arguments[position].is_inference()])
        tensors = self._frozen.of(arguments)
        known = self._models.find(tensors)
        changed = self._frozen.replaced(tensors) if known is None else known.parameters.changed(tensors)
        if known is not None and not changed:
            return known
        self._thaw(self._frozen.count_changes(changed))
        if len(self._models) >= MAX_OWNERS:
            self._thaw(list(self._frozen))
        return self._freeze(arguments)

    def _thaw(self, positions: Sequence[int]) -> None:
        """Makes these parameters inputs, and drops the models in which they are constants."""
        if positions:
            self._frozen.unfreeze(positions)
            self._models.clear()

    def _freeze(self, arguments: tuple[Any, ...]) -> FrozenModel:
        tensors = self._frozen.of(arguments)
        drop_stale_models()  # before more memory is allocated
        refuse_released(
            [(each.name, arguments[each.position]) for each in self._interface.inputs if each.order]
        )
        forget = self._models.on_free(tensors)
        parameters = Snapshot(tensors, forget)
        model, self._compiled_ahead = self._compiled_ahead or self._compiled(arguments), None
        if self._releases:
            release(tensors)
            parameters = Snapshot(tensors, forget)
        frozen = FrozenModel(model, parameters, self._fast_path_of(model, arguments))
        self._models.add(tensors, frozen)
        self._frozen.set_packed(tensors)
        return frozen

    def _compiled(self, arguments: Sequence[Any]) -> Model:
        constants = {
            each.name: each.array(arguments[each.position])
            for each in self._interface.inputs
            if each.position in self._frozen
        }
        with self._report.compiling():
            module = clone_module(self._module)  # the next call may have other parameters
            bind_constants(module, constants)
            tensors = self._frozen.of(arguments)
            size = sum(each.nbytes for each in tensors)
            if size <= MOST_WEIGHTS or self._options.device != "cpu":
                return self._kept_or_compiled(module)
            weights = weights_with(tensors) or Region(4 * size).weights()
            return compile_with_weights(module, weights, self._options)

    def _kept_or_compiled(self, module: Module) -> Model:
        """The model of ``module`` from the cache, or a new one, which is stored there."""
        programs = ProgramCache(self._options)
        if not programs.is_used():
            return compile(module, options=self._options)
        key = program_key(self._module, module, self._options)
        if (kept := programs.load(key)) is not None:
            self._report.count_cached()
            return kept
        self._report.miss = programs.explain_miss(key)
        info("a graph of PyTorch is not in the cache: %s", self._report.miss)
        model = compile(module, options=self._options)
        programs.store(key, model)
        return model

    def _fast_path_of(self, model: Model, arguments: tuple[Any, ...]) -> TensorFastPath | None:
        executor = model.recording_executor
        if not isinstance(executor, Cpu):
            return None
        inputs = [
            (each.position, *dlpack_type(spec.dtype, each.is_complex), each.order)
            for each, spec in zip(self._fed(), model.entry.inputs, strict=True)
        ]
        made = [each for each in self._interface.outputs if each.order is not None]
        outputs = [
            dlpack_type(spec.dtype, each.is_complex) for each, spec in zip(made, model.outputs, strict=True)
        ]
        frozen = [(position, sampled_bytes(arguments[position])) for position in self._frozen]
        threads = self._options.threads
        lazy = not self._is_guarded or self._interface.is_lazy
        return executor.tensor_path(torch.Tensor, inputs, outputs, frozen, arguments, threads, lazy)


class PartitionedGraph:
    """A graph in which PyTorch runs some operators, between the ``parts`` that graphwright compiles."""

    def __init__(self, graph: fx.GraphModule, parts: Sequence[CompiledGraph]) -> None:
        self._graph, self._parts = graph, parts
        self._is_compiled = False

    def __call__(self, *arguments: Any) -> Any:
        """Runs the graph on its arguments. The first call compiles all parts."""
        if not self._is_compiled:
            self._compile()
            self._is_compiled = True
        return self._graph(*arguments)

    def _compile(self) -> None:
        """Compiles the parts in two threads: one compiles while the other waits for the C compiler."""
        waiting = iter([*self._parts])  # each thread takes the next one

        def work() -> None:
            while (part := next(waiting, None)) is not None:
                part.compile_ahead()

        with BackgroundTask(work, lambda: [*waiting]) as other:
            work()
        other.result()


class SubgraphModule(torch.nn.Module):
    """A compiled subgraph as a submodule of its graph."""

    def __init__(self, graph: CompiledGraph, single: bool) -> None:
        """``single``: whether the graph has one result."""
        super().__init__()
        self._run, self._single = graph.call, single

    def __call__(self, *arguments: Any) -> Any:
        """Runs the subgraph. Hooks of modules are not called, as no user has this module."""
        results = self._run(*arguments)
        return results[0] if self._single else results
