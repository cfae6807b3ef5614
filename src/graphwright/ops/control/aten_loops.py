"""Import of PyTorch's ``while_loop``, ``scan`` and ``map`` as Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Value
from graphwright.ir.inference.loop_types import MAX_ROUNDS
from graphwright.ir.op import AtenImporter
from graphwright.ir.types import TensorType
from graphwright.ops.control.loop import ITERATION, Loop
from graphwright.ops.control.region_imports import tensors_of, widened_types
from graphwright.ops.control.scan import Scanned, emit_scan, length_of, slice_type


def _import_while(i: AtenImporter) -> Any:
    """The condition is computed before the loop, and at the end of each iteration for the next one."""
    starts = tensors_of(i.builder, i.operands("carried_inputs"))
    shared = i.operands("additional_inputs")
    (condition,) = tensors_of(i.builder, i.inline("cond_fn", (*starts, *shared)))
    types = [value.type for value in starts]
    for _ in range(MAX_ROUNDS):
        graph = _while_body(i, types, shared)
        returned = [value.type for value in graph.outputs[1:]]
        wider = widened_types(i, [value.type for value in starts], types, returned)
        if wider == types:
            tensors = [value for value in shared if isinstance(value, Value)]
            op = Loop(len(types), conditional=True)
            results = i.emit(op, condition, *starts, *tensors, regions=[graph])
            return results if isinstance(results, tuple) else (results,)
        types = wider
    raise i.fail(f"the shapes of its loop-carried values still change after {MAX_ROUNDS} iterations")


def _while_body(i: AtenImporter, types: Sequence[TensorType], shared: Sequence[Any]) -> Graph:
    """The region of the loop, for loop-carried values of ``types``."""
    graph = Graph("body_fn")
    at = Builder(i.builder.module, graph, sources=i.builder.sources)
    graph.add_input(ITERATION, "run")
    carried = [graph.add_input(type, f"carried_{k}") for k, type in enumerate(types)]
    received = _received(graph, shared)
    results = tensors_of(at, i.inline("body_fn", (*carried, *received), at))
    (condition,) = tensors_of(at, i.inline("cond_fn", (*results, *received), at))
    graph.set_outputs([condition, *results])
    return graph


def _import_scan(i: AtenImporter) -> Any:
    return _scanned(i, "combine_fn", i.operands("init"), i.operands("xs"), i.operands("additional_inputs"))


def _import_map(i: AtenImporter) -> Any:
    return _scanned(i, "f", (), i.operands("xs"), i.operands("pos_args"))


def _scanned(i: AtenImporter, body: str, states: Any, inputs: Any, shared: Sequence[Any]) -> Any:
    """A loop over the slices of ``inputs`` along axis 0."""
    starts, inputs = tensors_of(i.builder, states), tensors_of(i.builder, inputs)
    if not inputs:
        raise i.fail("it has no tensor to loop over")
    graph = Graph(body)
    at = Builder(i.builder.module, graph, sources=i.builder.sources)
    types = [*(value.type for value in starts), *(slice_type(value, 0) for value in inputs)]
    given = [graph.add_input(type, f"input_{k}") for k, type in enumerate(types)]
    graph.set_outputs(tensors_of(at, i.inline(body, (*given, *_received(graph, shared)), at)))
    axes, tensors = [0] * len(inputs), [value for value in shared if isinstance(value, Value)]
    scan = Scanned(graph, tensors, starts, inputs, axes, [False] * len(inputs))
    return tuple(emit_scan(scan, i.builder, length_of(i.builder, inputs, axes)))


def _received(graph: Graph, shared: Sequence[Any]) -> list[Any]:
    """``shared`` inside ``graph``: tensors become inputs of the graph, other values are used directly."""
    return [
        graph.add_input(value.type, f"shared_{k}") if isinstance(value, Value) else value
        for k, value in enumerate(shared)
    ]


Loop.aten = {
    "higher_order.while_loop": _import_while,
    "higher_order.scan": _import_scan,
    "higher_order.map_impl": _import_map,
}
