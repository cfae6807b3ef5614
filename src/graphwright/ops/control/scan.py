"""Import of ONNX's Scan as a Loop over the slices of its scan inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.builtin.require import Require
from graphwright.ir.graph import Graph, Value
from graphwright.ir.inference.loop_types import MAX_ROUNDS
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.types import I64, TensorType
from graphwright.ops.control.loop import ITERATION, Loop
from graphwright.ops.control.region_imports import set_inputs, widened_types
from graphwright.ops.core.binary import Less, Sub
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.where import Where
from graphwright.records import dataclass

BACKWARD = 1
END = 2**63 - 1
_HINT = "give the sizes of the model's inputs with shapes="


@dataclass
class Scanned:
    """A scan: its body, its operands, and the axis and direction of each scan input.

    The inputs of ``graph`` are the states, the slices and the ``captured`` values. :func:`emit_scan` changes
    it to the body of a Loop.
    """

    graph: Graph
    captured: list[Value]
    states: Sequence[Value]
    inputs: Sequence[Value]
    axes: Sequence[int]
    backward: Sequence[bool]


def _import(i: OnnxImporter) -> Any:
    """Scan from opset 9 on: without a batch axis, with attributes for axes and directions."""
    count = int(i.required_attr("num_scan_inputs"))
    operands = _operands(i, 0, count, 0)
    states, inputs = operands[: len(operands) - count], operands[len(operands) - count :]
    if not 0 < count <= len(operands):
        raise i.fail(f"it scans {count} of {len(operands)} inputs", "scan at least one input")
    axes = [
        _axis(i, axis, value.type.rank or 0)
        for axis, value in zip(_attribute(i, "scan_input_axes", count), inputs, strict=True)
    ]
    backward = [flag == BACKWARD for flag in _attribute(i, "scan_input_directions", count)]
    graph, captured = _read_body(i, [v.type for v in states], list(map(slice_type, inputs, axes)))
    scanned = len(graph.outputs) - len(states)
    if scanned < 0:
        raise i.fail(f"its body has {len(graph.outputs)} outputs for {len(states)} states")
    scan = Scanned(graph, captured, states, inputs, axes, backward)
    outputs = emit_scan(scan, i.builder, length_of(i.builder, inputs, axes))
    out_axes = _attribute(i, "scan_output_axes", scanned)
    out_backward = [flag == BACKWARD for flag in _attribute(i, "scan_output_directions", scanned)]
    scan_outputs = [
        _arranged(i, *item) for item in zip(outputs[len(states) :], out_axes, out_backward, strict=True)
    ]
    return (*outputs[: len(states)], *scan_outputs)


def _import_batched(i: OnnxImporter) -> Any:
    """Scan of opset 8: axis 0 is the batch, axis 1 is scanned, and the sequences of a batch may have
    different lengths.

    It becomes a Loop over the batch that contains a Loop over each sequence. After the end of a sequence, its
    states do not change, and its scan outputs are 0.
    """
    count = int(i.required_attr("num_scan_inputs"))
    lengths, operands = i.optional(0), _operands(i, 1, count, 1)
    states, inputs = operands[: len(operands) - count], operands[len(operands) - count :]
    if not 0 < count <= len(operands):
        raise i.fail(f"it scans {count} of {len(operands)} inputs", "scan at least one input")
    backward = [flag == BACKWARD for flag in _attribute(i, "directions", count)]
    for value, needed in zip(operands, [1] * len(states) + [2] * count, strict=True):
        _axis(i, needed - 1, value.type.rank or 0)
    rows = [slice_type(v, 0) for v in operands]
    slices = [slice_type(Value(type), 0) for type in rows[len(states) :]]
    graph, captured = _read_body(i, rows[: len(states)], slices)

    batch = Graph("batch")
    outer = list(dict.fromkeys((*operands, *([lengths] if lengths is not None else []), *captured)))
    index = batch.add_input(ITERATION, "row")
    inner = {value: batch.add_input(value.type, value.name) for value in outer}
    build = Builder(i.builder.module, batch, sources=i.builder.sources)
    row = {value: build(Gather(0), inner[value], index) for value in dict.fromkeys(operands)}
    scan = Scanned(
        graph,
        [inner[v] for v in captured],
        [row[v] for v in states],
        [row[v] for v in inputs],
        [0] * count,
        backward,
    )
    limit = None if lengths is None else build(Gather(0), inner[lengths], index)
    outputs = emit_scan(scan, build, batch.add_input(ITERATION, "length"), limit)
    batch.set_outputs(outputs)
    length = length_of(i.builder, inputs, [1] * count)
    batch_size = length_of(i.builder, operands, [0] * len(operands))
    loop = Loop(0, len(outputs), counted=True)
    return i.emit(loop, batch_size, *outer, length, regions=[batch])


def _operands(i: OnnxImporter, first: int, scanned: int, batched: int) -> list[Value]:
    """The operands from ``first`` on. Their ranks, if unknown, follow from the body: the last ``scanned``
    operands have one axis more than in the body, and all have ``batched`` more.
    """
    ranks, total = i.declared_ranks("body"), len(i.inputs()) - first
    ranks = ranks if len(ranks) == total else [None] * total
    extra = [batched] * (total - scanned) + [batched + 1] * min(scanned, total)
    return [
        _operand(i, first + k, None if rank is None else rank + more)
        for k, (rank, more) in enumerate(zip(ranks, extra, strict=True))
    ]


def _operand(i: Importer, index: int, rank: int | None) -> Value:
    """Operand ``index``. If its rank is unknown, it gets ``rank``, which the body declares."""
    value, module = i.input(index), i.builder.module
    if value.type.shape is None and rank is not None:
        value.type = TensorType(value.type.dtype, module.symbols.fresh_sizes(value.name, rank))
    if value.type.shape is None:
        raise i.fail(f"the number of axes of input {index} is not known", _HINT)
    return value


def _axis(i: Importer, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise i.fail(f"axis {axis} is out of range for rank {rank}")
    return axis % rank


def _attribute(i: Importer, name: str, count: int) -> list[int]:
    given = i.attr(name)
    if given is None:
        return [0] * count
    if len(given) != count:
        raise i.fail(f"attribute {name!r} has {len(given)} elements; it must have {count}")
    return [int(item) for item in given]


def slice_type(value: Value, axis: int) -> TensorType:
    """The type of a slice of ``value``, without ``axis``."""
    dims = list(value.type.dims)
    del dims[axis]
    return TensorType(value.type.dtype, tuple(dims))


def _read_body(
    i: Importer, states: Sequence[TensorType], slices: Sequence[TensorType]
) -> tuple[Graph, list[Value]]:
    """The body, with types of the states that hold in every iteration, and its captured values."""
    types = list(states)
    for _ in range(MAX_ROUNDS):
        graph, captured = i.region("body", (*types, *slices))
        if len(graph.outputs) < len(types):
            raise i.fail(f"its body has {len(graph.outputs)} outputs for {len(types)} states")
        results = [value.type for value in graph.outputs[: len(types)]]
        wider = widened_types(i, states, types, results)
        if wider == types:
            return graph, captured
        types = wider
    raise i.fail(f"the shapes of its states still change after {MAX_ROUNDS} iterations")


def length_of(build: Builder, values: Sequence[Value], axes: Sequence[int]) -> Value:
    """The common size of ``values`` along their ``axes``, as a scalar. Sizes that are not proved equal are
    required to be equal at run time.
    """
    sizes = [value.type.dims[axis] for value, axis in zip(values, axes, strict=True)]
    for size in sizes[1:]:
        if not build.module.symbols.proves_equal(sizes[0], size):
            build.node(Require("==", sizes[0], size))
    length: Value = build(Reshape(()), build(Shape(axes[0], axes[0] + 1), values[0]))
    return length


def emit_scan(scan: Scanned, build: Builder, length: Value, limit: Value | None = None) -> list[Value]:
    """Emits the Loop of a scan: returns the final states, then the scan outputs.

    Iterations from ``limit`` on do not change the states, and their scan outputs are 0. Backward inputs start
    at the last slice before ``limit``.
    """
    graph, sources = scan.graph, build.sources
    count = len(scan.states)
    states, slices = graph.inputs[:count], graph.inputs[count : count + len(scan.inputs)]
    captured = graph.inputs[count + len(scan.inputs) :]
    iteration = graph.add_input(ITERATION, "run")
    shared = {v: graph.add_input(v.type, v.name) for v in dict.fromkeys(scan.inputs)}
    front = Builder(build.module, graph, next(iter(graph), None), sources)
    bounds: dict[Value, Value] = {}
    if any(scan.backward):
        stop = length if limit is None else build(Cast(I64), limit)
        last = build(Sub(), stop, build.const(np.array(1, np.int64)))
        bounds[last] = graph.add_input(ITERATION, "last")
    if limit is not None:
        bounds[limit] = graph.add_input(limit.type, "limit")
    for value, given, axis, backward in zip(scan.inputs, slices, scan.axes, scan.backward, strict=True):
        position = front(Sub(), bounds[last], iteration) if backward else iteration
        graph.replace_all_uses(given, front(Gather(axis), shared[value], position))
    set_inputs(graph, [iteration, *states, *shared.values(), *captured, *bounds.values()])
    if limit is not None:
        _freeze(graph, Builder(build.module, graph, sources=sources), iteration, bounds[limit], states)
    scans = len(graph.outputs) - count
    operands = (length, *scan.states, *shared, *scan.captured, *bounds)
    results = build(Loop(count, scans, counted=True), *operands, regions=[graph])
    return [results] if isinstance(results, Value) else list(results)


def _freeze(graph: Graph, build: Builder, iteration: Value, limit: Value, states: Sequence[Value]) -> None:
    """Changes the body so that iterations from ``limit`` on return the states that they receive, and scan
    outputs of 0.
    """
    active = build(Less(), iteration, as_dtype(build, limit, I64))
    results = [build(Where(), active, new, old) for new, old in zip(graph.outputs, states, strict=False)]
    for value in graph.outputs[len(states) :]:
        zero = build.const(np.zeros((), value.type.dtype.numpy))
        results.append(build(Where(), active, value, zero))
    graph.set_outputs(results, graph.output_names)


def _arranged(i: Importer, rows: Value, axis: int, backward: bool) -> Value:
    """A scan output in the direction of the node, with the scanned axis moved to ``axis``."""
    if backward:
        rows = i.emit(Slice((-1,), (-END - 1,), (0,), (-1,)), rows)
    if axis == 0:
        return rows
    rank = rows.type.rank
    if rank is None:
        raise i.fail("the number of axes of a scan output is not known", _HINT)
    order = list(range(1, rank))
    order.insert(_axis(i, axis, rank), 0)
    transposed: Value = i.emit(Transpose(tuple(order)), rows)
    return transposed


Loop.onnx = {**Loop.onnx, ("Scan", 8): _import_batched, ("Scan", 9): _import}
