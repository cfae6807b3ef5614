"""One ONNX node through the ops' import mappings and through ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

import graphwright.ops
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.op import Array, Op, registered_ops
from graphwright.ir.types import TensorType, type_of

from .support import run_graph

graphwright.ops.load()


class RefusedError(Exception):
    """The error that :meth:`NodeImporter.fail` returns."""


class NodeImporter:
    """An importer of a single node, as a frontend would be one."""

    domain = ""

    def __init__(
        self,
        b: Builder,
        op_type: str,
        version: int,
        values: Sequence[Value | None],
        attributes: dict[str, Any],
        outputs: int,
    ) -> None:
        self.b, self.op_type, self.version = b, op_type, version
        self.values, self.attributes, self.output_count = list(values), attributes, outputs
        self.regions: dict[str, tuple[Graph, list[Value]]] = {}

    def input(self, index: int) -> Value:
        value = self.optional(index)
        assert value is not None, f"input {index} is absent"
        return value

    def optional(self, index: int) -> Value | None:
        return self.values[index] if index < len(self.values) else None

    def inputs(self) -> list[Value | None]:
        return self.values

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def required_attr(self, name: str) -> Any:
        return self.attributes[name]

    def constant(self, index: int) -> Array | None:
        fact = self.b.fact(self.optional(index))
        return None if fact is None else fact.data

    def const(self, array: Array) -> Value:
        return self.b.const(array)

    def emit(self, op: Op, *inputs: Value | None, regions: Sequence[Graph] = ()) -> Any:
        return self.b(op, *inputs, regions=regions)

    @property
    def builder(self) -> Builder:
        return self.b

    def declared_ranks(self, name: str) -> list[int | None]:
        return [value.type.rank for value in self.regions[name][0].inputs]

    def region(self, name: str, receives: Sequence[TensorType] = ()) -> tuple[Graph, list[Value]]:
        return self.regions[name]

    def branches(self, *names: str) -> list[tuple[Graph, list[Value]]]:
        return [self.region(name) for name in names]

    def fail(self, message: str, hint: str = "") -> Exception:
        return RefusedError(message)


def importer_of(op_type: str, opset: int) -> Any:
    """The import function that serves a node of this opset."""
    found = {
        key[1]: function
        for cls in registered_ops().values()
        for key, function in cls.onnx.items()
        if key[0] == op_type and len(key) == 2
    }
    return found[max(version for version in found if version <= opset)]


def imported(
    op_type: str, arrays: Sequence[Array | None], attributes: dict[str, Any], opset: int, outputs: int = 1
) -> list[Array]:
    """Imports one node with constant inputs, and computes its outputs by the references of the imported
    ops.
    """
    module = Module()
    b, _ = new_main_graph(module, [])
    values = [None if a is None else b.const(a) for a in arrays]
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in attributes.items()}
    made = importer_of(op_type, opset)(NodeImporter(b, op_type, opset, values, plain, outputs))
    results = list(made) if isinstance(made, tuple) else [made]
    b.graph.set_outputs(results[:outputs])
    computed = run_graph(module, b.graph, {}, {})
    for value, array in zip(results, computed, strict=False):
        known = value.type if value.type.is_static else type_of(array)
        assert type_of(array) == known, f"{value.type} was inferred, {type_of(array)} computed"
    return computed


def runtime(
    op_type: str, arrays: Sequence[Array | None], attributes: dict[str, Any], opset: int, outputs: int = 1
) -> list[Array]:
    """The outputs of one node by ONNX Runtime."""
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(arrays)]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op_type, names, results, **attributes)
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    untyped = [onnx.ValueInfoProto(name=r) for r in results]
    graph = helper.make_graph([node], "g", inputs, untyped)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    feeds = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    return [np.asarray(r) for r in session.run(None, feeds)]


def compare(
    op_type: str,
    arrays: Sequence[Array | None],
    attributes: dict[str, Any] | None = None,
    opset: int = 18,
    outputs: int = 1,
    tolerance: float = 2e-5,
) -> None:
    """Assert that both give the same."""
    attributes = attributes or {}
    expected = runtime(op_type, arrays, attributes, opset, outputs)
    actual = imported(op_type, arrays, attributes, opset, outputs)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance, err_msg=f"{op_type} {attributes}")
