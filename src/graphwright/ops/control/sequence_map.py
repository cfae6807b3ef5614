"""Import of ONNX's SequenceMap as a Loop over the positions of its first sequence."""

from __future__ import annotations

from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import OnnxImporter
from graphwright.ir.types import TensorType
from graphwright.ops.control.loop import ITERATION, Loop
from graphwright.ops.control.region_imports import set_inputs
from graphwright.ops.sequence.containers import common_type
from graphwright.ops.sequence.sequence_at import SequenceAt
from graphwright.ops.sequence.sequence_empty import SequenceEmpty
from graphwright.ops.sequence.sequence_insert import SequenceInsert
from graphwright.ops.sequence.sequence_length import SequenceLength


def _import(i: OnnxImporter) -> Any:
    """The function that the specification defines needs the dtypes of the body's outputs, which a model need
    not declare.
    """
    operands = [i.input(k) for k in range(len(i.inputs()))]
    if operands[0].type.dtype.kind != "sequence":
        raise i.fail(f"input 0 is {operands[0].type}; it must be a sequence")
    graph, captured = i.region("body", [_item_type(i, value) for value in operands])
    items, outer = graph.inputs[: len(operands)], graph.inputs[len(operands) :]
    module, sources = i.builder.module, i.builder.sources
    position = graph.add_input(ITERATION, "position")
    shared = {value: graph.add_input(value.type, value.name) for value in dict.fromkeys(operands)}
    front = Builder(module, graph, next(iter(graph), None), sources)
    for value, item in zip(operands, items, strict=True):
        is_sequence = value.type.dtype.kind == "sequence"
        given = front(SequenceAt(), shared[value], position) if is_sequence else shared[value]
        graph.replace_all_uses(item, given)
    starts: list[Value] = [i.emit(SequenceEmpty(value.type.dtype)) for value in graph.outputs]
    made = [graph.add_input(start.type, "made") for start in starts]
    set_inputs(graph, [position, *made, *shared.values(), *outer])
    last = Builder(module, graph, sources=sources)
    graph.set_outputs([last(SequenceInsert(), *pair) for pair in zip(made, graph.outputs, strict=True)])
    loop = Loop(len(starts), counted=True)
    return i.emit(loop, i.emit(SequenceLength(), operands[0]), *starts, *shared, *captured, regions=[graph])


def _item_type(i: OnnxImporter, value: Value) -> TensorType:
    """The type that the body receives for an operand: that of all tensors of a sequence, or of a tensor."""
    if value.type.dtype.kind != "sequence" or value.type.dtype.element is None:
        return value.type
    fact = i.builder.fact(value)
    return common_type(value.type.dtype.element, fact.item_types if fact else None)


Loop.onnx = {**Loop.onnx, ("SequenceMap", 17): _import}
