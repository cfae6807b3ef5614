"""Packs the constants that the kernels of several modules read into one set of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.compiler.selection import SelectedUnit
from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.constants.deferred import Deferred
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.op import Array, ConstRef
from graphwright.kernels.launch import SelectedNode
from graphwright.kernels.steps import all_steps, step_values
from graphwright.package.pack_weights import pack_weights
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.passes.dead_code import DeadCode
from graphwright.records import replace

WeightRanges = dict[Value, tuple[int, int]]
"""For each constant that kernels read: its first byte in the weights, and its number of bytes."""


def pack_read_constants(
    units: Sequence[SelectedUnit], shared: Weights | None
) -> tuple[Weights, list[WeightRanges]]:
    """Packs the constants that the steps of all units read after those of ``shared``, each content once.
    Returns the weights and, for each unit, where its constants lie in them.
    """
    read = [(unit.module, _read_constants(unit.module.main, unit.steps)) for unit in units]
    # no local refers to the arrays, so that packing frees them one by one
    weights = pack_weights(_take_constants(read, shared), shared)
    packings = dict(shared.packings) if shared else {}
    for module, _ in read:
        packings |= module.constants.packings
    weights = replace(weights, packings={n: packings[n] for n in weights.tensors if n in packings})
    return weights, [_adopt_packed(module, refs, weights) for module, refs in read]


def _take_constants(
    read: Sequence[tuple[Module, Mapping[Value, ConstRef]]], shared: Weights | None
) -> dict[str, Array | Deferred]:
    """Removes the constants that kernels read from the pools of the modules and returns those that
    ``shared`` lacks. Constants that nothing reads any more are dropped.
    """
    taken: dict[str, Array | Deferred] = {}
    there = shared.tensors if shared else {}
    for module, refs in read:
        for ref in dict.fromkeys(refs.values()):
            held = module.constants.take(ref)
            if ref.digest not in there:
                taken.setdefault(ref.digest, held)
        DeadCode().run(module, Record("dead_code"))
        module.constants.release()
    return taken


def _adopt_packed(module: Module, used: Mapping[Value, ConstRef], weights: Weights) -> WeightRanges:
    """Lets the pool of ``module`` refer to the packed arrays, and returns where its ``used`` constants
    lie.
    """
    for ref in module.constants:
        if ref.digest in weights.tensors:
            module.constants.restore(ref.digest, weights.arrays[ref.digest])
    tensors = {value: weights.tensors[ref.digest] for value, ref in used.items()}
    return {value: (tensor.start, tensor.size) for value, tensor in tensors.items()}


def _read_constants(graph: Graph, steps: tuple[SelectedNode, ...]) -> dict[Value, ConstRef]:
    return {
        value: constant.value
        for value in _read_values(graph, steps)
        if (constant := constant_of(value)) is not None
    }


def _read_values(graph: Graph, steps: tuple[SelectedNode, ...]) -> list[Value]:
    values = [v for step in all_steps(steps) for v in step_values(step)]
    values += [v for step in all_steps(steps) for region in step.node.regions for v in region.outputs]
    return [*values, *graph.outputs]
