"""If."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Value
from graphwright.ir.op import AtenImporter, Fact, Inference, OnnxImporter, Op, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.types import BOOL
from graphwright.ops.control.branches import BranchOp, joined, selector
from graphwright.ops.control.region_imports import tensors_of
from graphwright.records import replace


@op("If")
class If(BranchOp):
    """Runs region 0 if operand 0, a bool of one element, is true, else region 1.

    The region receives the other operands, and its outputs are the results. The op has no ``reference``:
    executors run the region.
    """

    results: int

    def output_count(self) -> int:
        return self.results

    def with_results(self, kept: Sequence[int]) -> Op:
        return replace(self, results=len(kept))

    def selected_region(self, condition: Fact, *operands: Fact | None) -> int | None:
        """The branch of a constant condition."""
        value = selector(condition)
        return None if value is None else int(not value)

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        """The facts that hold for the outputs of both regions (:func:`joined`)."""
        if len(outputs) != 2:
            raise at.fail(f"it has {len(outputs)} regions; it must have two, one for true and one for false")
        condition = at.inputs[0]
        if condition is None or condition.dtype != BOOL:
            raise at.fail(f"the condition is {condition and condition.type}; it must be a bool")
        if condition.type.shape is not None:
            at.equal(condition.type.elements, 1, "elements of the condition")
        return joined(at, outputs, self.results)


def _import(i: OnnxImporter) -> Any:
    condition = i.constant(0)
    if condition is not None and condition.size == 1:  # the other branch may be invalid for these shapes
        return i.inline("then_branch" if condition.item() else "else_branch")
    regions = i.branches("then_branch", "else_branch")
    operands = list(dict.fromkeys(value for _, captured in regions for value in captured))
    for graph, captured in regions:
        _receive(graph, captured, operands)
    counts = [len(graph.outputs) for graph, _ in regions]
    if counts[0] != counts[1]:
        raise i.fail(
            f"its branches have {counts[0]} and {counts[1]} outputs",
            hint="both branches must have the same number of outputs",
        )
    return i.emit(If(counts[0]), i.input(0), *operands, regions=[graph for graph, _ in regions])


def _receive(graph: Graph, captured: Sequence[Value], operands: Sequence[Value]) -> None:
    """Gives ``graph``, whose inputs receive ``captured``, one input for each of ``operands``, in their
    order.
    """
    inner = dict(zip(captured, graph.inputs, strict=True))
    for value in operands:
        if value not in inner:
            inner[value] = graph.add_input(value.type, value.name)
    graph.inputs[:] = [inner[value] for value in operands]
    for index, value in enumerate(graph.inputs):
        value.index = index


def _export(e: Exporter, op: If, condition: Value, *operands: Value) -> Any:
    then, otherwise = (e.branch(region, operands) for region in (0, 1))
    return e.emit("If", condition, outputs=op.results, then_branch=then, else_branch=otherwise)


If.onnx = {("If", 1): _import}
If.to_onnx = _export


def _import_cond(i: AtenImporter) -> Any:
    """``torch.cond``. Operands that are not tensors are used in both branches directly."""
    operands = i.operands("operands")
    branches = [_branch(i, name, operands) for name in ("true_fn", "false_fn")]
    tensors = [value for value in operands if isinstance(value, Value)]
    results = i.emit(If(len(branches[0].outputs)), i.input(0), *tensors, regions=branches)
    return results if isinstance(results, tuple) else (results,)


def _branch(i: AtenImporter, name: str, operands: Sequence[Any]) -> Graph:
    """A branch as a region whose inputs are the tensors among ``operands``."""
    graph = Graph(name)
    at = Builder(i.builder.module, graph, sources=i.builder.sources)
    given = [
        graph.add_input(value.type, f"operand_{k}") if isinstance(value, Value) else value
        for k, value in enumerate(operands)
    ]
    graph.set_outputs(tensors_of(at, i.inline(name, given, at)))
    return graph


If.aten = {"higher_order.cond": _import_cond}
