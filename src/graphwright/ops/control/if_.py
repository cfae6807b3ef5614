"""If."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.exporter import Exporter
from graphwright.ir.graph import Graph, Value
from graphwright.ir.op import AtenImporter, Fact, Inference, OnnxImporter, op
from graphwright.ir.types import BOOL
from graphwright.ops.control.branches import BranchOp, chosen_by, joined
from graphwright.ops.control.regions import tensors_of


@op("If")
class If(BranchOp):
    """The outputs of region 0 if the one bool of operand 0 is true, else of region 1.

    Both regions receive the other operands. There is no ``reference``: an executor runs the region taken.
    """

    results: int

    def output_count(self) -> int:
        return self.results

    def selected_region(self, condition: Fact, *operands: Fact | None) -> int | None:
        """The branch of a constant condition."""
        holds = chosen_by(condition)
        return None if holds is None else int(not holds)

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        """What is known of the outputs whichever region gives them (:func:`joined`)."""
        if len(outputs) != 2:
            raise at.fail(f"{len(outputs)} regions: it needs two, one for true and one for false")
        condition = at.inputs[0]
        if condition is None or condition.dtype != BOOL:
            raise at.fail(f"its condition is {condition and condition.type}, not a bool")
        if condition.type.shape is not None:
            at.equal(condition.type.elements, 1, "elements of the condition")
        return joined(at, outputs, self.results)


def _import(i: OnnxImporter) -> Any:
    condition = i.constant(0)
    if condition is not None and condition.size == 1:  # the other branch need not even have types that fit
        return i.inline("then_branch" if condition.item() else "else_branch")
    regions = [i.region("then_branch"), i.region("else_branch")]
    operands = list(dict.fromkeys(value for _, captured in regions for value in captured))
    for graph, captured in regions:
        _receive(graph, captured, operands)
    counts = [len(graph.outputs) for graph, _ in regions]
    if counts[0] != counts[1]:
        raise i.fail(
            f"its branches have {counts[0]} and {counts[1]} outputs",
            hint="give both the same number of outputs",
        )
    return i.emit(If(counts[0]), i.input(0), *operands, regions=[graph for graph, _ in regions])


def _receive(graph: Graph, captured: Sequence[Value], operands: Sequence[Value]) -> None:
    """Give ``graph``, whose inputs are ``captured``, one input for each of ``operands`` in their order."""
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
    """``torch.cond``: operands that are no tensors are the same in both branches as outside."""
    operands = i.operands("operands")
    branches = [_branch(i, name, operands) for name in ("true_fn", "false_fn")]
    tensors = [value for value in operands if isinstance(value, Value)]
    made = i.emit(If(len(branches[0].outputs)), i.input(0), *tensors, regions=branches)
    return made if isinstance(made, tuple) else (made,)


def _branch(i: AtenImporter, name: str, operands: Sequence[Any]) -> Graph:
    """A branch as a region that receives the tensors among ``operands``."""
    graph = Graph(name)
    at = Builder(i.builder.module, graph, sources=i.builder.sources)
    given = [
        graph.add_input(value.type, f"operand_{k}") if isinstance(value, Value) else value
        for k, value in enumerate(operands)
    ]
    graph.set_outputs(tensors_of(at, i.inline(name, given, at)))
    return graph


If.aten = {"higher_order.cond": _import_cond}
