"""Small ONNX models for tests, ops of a test domain, and an evaluator for imported modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from graphwright import ops
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.inference.infer import evaluate
from graphwright.ir.op import Fact, Importer, Inference, Op, op
from graphwright.ir.op.region_op import RegionOp
from graphwright.ir.types import TensorType

ops.load()
DOMAIN = "test.toys"
FLOAT = TensorProto.FLOAT


@op("ImportedScale")
class ImportedScale(Op):
    """``x * factor + offset``: mapped in several opset versions that differ in ``offset``."""

    factor: float
    offset: float = 0.0

    def infer(self, at: Inference, x: Fact) -> TensorType:
        return x.type

    def reference(self, x: Any) -> Any:
        return x * np.float32(self.factor) + np.float32(self.offset)


def scale(offset: float) -> Any:
    """An import function whose version is recognized by ``offset``."""
    return lambda i: i.emit(ImportedScale(i.attr("factor", 2.0), offset), i.input(0))


ImportedScale.onnx = {
    ("Scale", 2, DOMAIN): scale(200.0),
    ("Scale", 5, DOMAIN): scale(500.0),
    ("Late", 7, DOMAIN): scale(0.0),
}


@op("ImportedBranch")
class ImportedBranch(RegionOp):
    """Runs one of two regions; all operands but the first go to both."""

    def infer_regions(self, at: Inference, outputs: Sequence[Sequence[Fact]]) -> tuple[Fact, ...]:
        return tuple(outputs[0])


def branch(i: Importer) -> Any:
    """Both branches with the union of their captured values; in place where the condition is known."""
    condition = i.constant(0)
    if condition is not None:
        return i.inline("then_branch" if condition else "else_branch")
    (yes, read), (no, read_too) = i.region("then_branch"), i.region("else_branch")
    assert read == read_too, "the test's branches read the same values"
    return i.emit(ImportedBranch(), i.input(0), *read, regions=(yes, no))


ImportedBranch.onnx = {("Branch", 1, DOMAIN): branch}


@op("ToyFault")
class ToyFault(Op):
    """A toy op whose import fails in the way that its attribute says."""

    def infer(self, at: Inference, x: Fact) -> TensorType:
        raise at.fail("sizes 3 and 4 differ")


def fault(i: Importer) -> Any:
    """Fails as the model's node asks for."""
    if i.attr("how") == "fail":
        raise i.fail("cannot do this", "do that")
    if i.attr("how") == "crash":
        return [][1]
    return i.emit(ToyFault(), i.input(0))


ToyFault.onnx = {("Fault", 1, DOMAIN): fault}


def tensor_info(name: str, shape: Sequence[int | str | None] | None = (2, 3), kind: int = FLOAT) -> Any:
    """A typed input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def toy(
    op_type: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", **attributes: Any
) -> Any:
    """A node of the tests' own domain."""
    return helper.make_node(op_type, inputs, outputs, name, domain=DOMAIN, **attributes)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Any] = (),
    outputs: Sequence[str] = ("y",),
    initializers: Sequence[Any] = (),
    functions: Sequence[Any] = (),
    opset: int = 17,
    toys: int = 9,
) -> onnx.ModelProto:
    """A model with the default domain and the tests' own; ``x: f32[2, 3]`` if no inputs are given."""
    graph = helper.make_graph(
        nodes, "g", inputs or [tensor_info("x")], [tensor_info(o, None) for o in outputs], initializers
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, toys)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def run(module: Module, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The module's outputs by the ops' references, node by node."""
    results = _evaluate(module, module.main, [feeds[value.name] for value in module.main.inputs])
    return dict(zip(module.main.output_names, results, strict=True))


def _evaluate(module: Module, graph: Graph, arrays: Sequence[Any]) -> list[Any]:
    values: dict[Value, Any] = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph:
        operands = [None if value is None else values[value] for value in node.inputs]
        if isinstance(node.op, Constant):
            results: Sequence[Any] = [module.constants[node.op.value]]
        elif node.regions:  # a branch: operand 0 chooses, both regions take the others
            results = _evaluate(module, node.regions[0 if operands[0] else 1], operands[1:])
        else:
            results = evaluate(node.op, operands)
        values.update(zip(node.outputs, results, strict=True))
    return [values[value] for value in graph.outputs]
