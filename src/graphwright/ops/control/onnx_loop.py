"""Import of ONNX's Loop, and its export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Value
from graphwright.ir.inference.loop_types import MAX_ROUNDS
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.types import BOOL, I64, TensorType
from graphwright.ops.control.loop import CONDITION, ITERATION, UNLIMITED, Loop
from graphwright.ops.control.region_imports import set_inputs, widened_types
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.reshape import Reshape


def _import(i: OnnxImporter) -> Any:
    """ONNX's Loop. Inside the body, the condition is always true. A condition that the body returns has no
    effect if the node itself has none.
    """
    limit, condition, *starts = [*i.inputs(), None, None][: max(2, len(i.inputs()))]
    graph, captured = _read_body(i, [_initial_value(i, k, value) for k, value in enumerate(starts)])
    count = len(starts)
    scans = len(graph.outputs) - 1 - count
    if scans < 0:
        raise i.fail(f"its body has {len(graph.outputs)} outputs for {count} loop-carried values")
    given = graph.outputs[0].type
    if given.dtype != BOOL or given.shape not in ((), (1,), None):
        raise i.fail(f"output 0 of its body is {given}", "it is the condition, and must be a bool scalar")
    endless = condition is None or (_is_true(i, graph.outputs[0], graph) and _is_constant_true(i, condition))
    _receive_scalar_iteration(i, graph)
    _replace_by_true(i, graph, graph.inputs[1])
    known = None if limit is None else i.constant(0)
    if known is not None and not endless and known.size == 1 and known.item() >= UNLIMITED:
        limit = None
    _set_conditions(i, graph, [] if endless else [graph.outputs[0]])
    if limit is None and endless:
        raise i.fail(
            "it has no trip count, and its condition is always true: it would never end",
            "add a trip count or a condition",
        )
    loop = Loop(count, scans, limit is not None, not endless)
    bounds = [_scalar(i, v) for v in (limit, None if endless else condition) if v is not None]
    return i.emit(loop, *bounds, *starts, *captured, regions=[graph])


def _initial_value(i: Importer, index: int, value: Value | None) -> Value:
    if value is None:
        raise i.fail(f"loop-carried value {index} has no initial value", "add the missing input")
    return value


def _read_body(i: OnnxImporter, starts: Sequence[Value]) -> tuple[Graph, list[Value]]:
    """The body, with types of the loop-carried values that hold in every iteration, and its
    captured values.
    """
    iteration = TensorType(I64, (1,)) if i.declared_ranks("body")[:1] == [1] else ITERATION
    types = [value.type for value in starts]
    for _ in range(MAX_ROUNDS):
        graph, captured = i.region("body", (iteration, CONDITION, *types))
        results = graph.outputs[1 : 1 + len(types)]
        if len(results) < len(types):
            raise i.fail(f"its body has {len(graph.outputs)} outputs for {len(types)} loop-carried values")
        wider = widened_types(i, [v.type for v in starts], types, [value.type for value in results])
        if wider == types:
            return graph, captured
        types = wider
    raise i.fail(f"the shapes of its loop-carried values still change after {MAX_ROUNDS} iterations")


def _is_true(i: Importer, value: Value, graph: Graph) -> bool:
    """Whether a condition that the body returns is always true: the constant, or the condition that it
    receives.
    """
    while value.producer is not None and isinstance(value.producer.op, Identity):
        value = value.producer.operand(0)
    return value is graph.inputs[1] or _is_constant_true(i, value)


def _is_constant_true(i: Importer, value: Value) -> bool:
    fact = i.builder.fact(value)
    return fact is not None and fact.data is not None and fact.data.size == 1 and bool(fact.data.item())


def _scalar(i: Importer, value: Value) -> Value:
    """``value`` as a scalar: some exporters write a vector of one element."""
    result: Value = value if value.type.shape == () else i.emit(Reshape(()), value)
    return result


def _inside(i: Importer, graph: Graph, *, last: bool = False) -> Builder:
    """A builder at the beginning of a region, or with ``last`` at its end."""
    first = None if last else next(iter(graph), None)
    return Builder(i.builder.module, graph, first, i.builder.sources)


def _receive_scalar_iteration(i: Importer, graph: Graph) -> None:
    """Makes the iteration index a scalar input of the body, if the body declares a vector."""
    declared = graph.inputs[0]
    if declared.type.shape == ():
        return
    iteration = graph.add_input(ITERATION, declared.name)
    graph.replace_all_uses(declared, _inside(i, graph)(Reshape((1,)), iteration))
    set_inputs(graph, [iteration, *graph.inputs[1:-1]])


def _replace_by_true(i: Importer, graph: Graph, condition: Value) -> None:
    """Replaces the input ``condition`` of the body by true, and removes it."""
    graph.replace_all_uses(condition, _inside(i, graph).const(np.asarray(np.True_)))
    graph.remove_input(condition.index)


def _set_conditions(i: Importer, graph: Graph, conditions: Sequence[Value]) -> None:
    """Replaces output 0 of the body by ``conditions`` (one or none), as scalars."""
    build = _inside(i, graph, last=True)
    scalars = [c if c.type.shape in ((), None) else build(Reshape(()), c) for c in conditions]
    names = graph.output_names
    graph.set_outputs([*scalars, *graph.outputs[1:]], [*names[: len(scalars)], *names[1:]])


def _export(e: Exporter, op: Loop, *inputs: Value) -> Any:
    """The length of a vector that is the trip count is exported as Size."""
    where = op.loop_carried()
    limit: Any = None if op.trips is None else e.size(op.trips)
    if op.counted:
        limit = e.emit("Size", inputs[0]) if inputs[0].type.rank == 1 else inputs[0]
    captured = len(inputs) - op.captured_operands(len(inputs))
    carried = inputs[where.start : captured]
    condition: Any = inputs[op.counted] if op.conditional else None
    if condition is None and not carried:  # ONNX requires two operands
        condition = e.const(np.asarray(np.True_))
    return e.emit(
        "Loop",
        limit,
        condition,
        *carried,
        outputs=op.output_count(),
        body=e.body(inputs[captured:], op.conditional),
    )


Loop.onnx = {**Loop.onnx, ("Loop", 1): _import}
Loop.to_onnx = _export
