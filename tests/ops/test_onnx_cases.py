"""ONNX's own node cases, imported and evaluated node by node: a check of mappings, references and types.

Cases whose ops are not mapped, or that have subgraphs, are left to the tests of the frontend.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

import graphwright.ops
from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.graph import Graph
from graphwright.ir.inference.infer import infer_outputs
from graphwright.ir.op import Array, Fact, Import, Op, facts_elements, registered_ops
from graphwright.ir.symbols import SymbolTable
from graphwright.ir.types import TensorType, type_of

from .support import noted, run_reference

graphwright.ops.load()

MAPPINGS: dict[tuple[str, str], dict[int, Import]] = {}
for _cls in registered_ops().values():
    for _key, _convert in _cls.onnx.items():
        _domain = _key[2] if len(_key) > 2 else ""
        MAPPINGS.setdefault((_domain, _key[0]), {})[_key[1]] = _convert


def mapping(domain: str, op_type: str, version: int) -> Import | None:
    """The newest import not above ``version``."""
    known = MAPPINGS.get((domain, op_type), {})
    fitting = [since for since in known if since <= version]
    return known[max(fitting)] if fitting else None


@dataclass(eq=False)
class Eager:
    """A value that is there already."""

    array: Array

    @property
    def type(self) -> TensorType:
        return type_of(self.array)


class EagerImporter:
    """An Importer that evaluates what is emitted, and compares its type with the inferred one."""

    domain = ""

    def __init__(self, node: onnx.NodeProto, version: int, values: dict[str, Eager]) -> None:
        self.op_type, self.version, self.node, self.values = node.op_type, version, node, values
        self.attributes = {a.name: _plain(helper.get_attribute_value(a)) for a in node.attribute}

    def inputs(self) -> list[Eager | None]:
        return [self.optional(k) for k in range(len(self.node.input))]

    def optional(self, index: int) -> Eager | None:
        names = self.node.input
        return self.values[names[index]] if index < len(names) and names[index] else None

    def input(self, index: int) -> Eager:
        value = self.optional(index)
        assert value is not None, f"input {index} is absent"
        return value

    @property
    def output_count(self) -> int:
        return len(self.node.output)

    @property
    def builder(self) -> Callable[..., Any]:
        return self.emit

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def required_attr(self, name: str) -> Any:
        return self.attributes[name]

    def constant(self, index: int) -> Array | None:
        value = self.optional(index)
        return None if value is None else value.array

    def const(self, array: Array) -> Eager:
        return Eager(np.asarray(array))

    def emit(self, op: Op, *inputs: Eager | None, regions: Sequence[Graph] = ()) -> Any:
        arrays = [None if v is None else v.array for v in inputs]
        results = run_reference(op, arrays)
        facts = [None if a is None else Fact(type_of(a), facts_elements(a), a) for a in arrays]
        inferred = infer_outputs(op, facts, SymbolTable(), op.name, [type_of(r) for r in results])
        for fact, result in zip(inferred, results, strict=True):
            assert fact.dtype == type_of(result).dtype
            if fact.type.is_static:
                assert fact.type == type_of(result), op.name
            if fact.elements is not None:
                assert list(fact.elements) == [int(e) for e in result.ravel()], op.name
        made = tuple(map(Eager, results))
        return made[0] if len(made) == 1 else made

    def fail(self, message: str, hint: str = "") -> Exception:
        return ModelError(Diagnostic("unsupported", message, self.op_type, hint))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _is_covered(case: Any) -> bool:
    model = case.model
    versions = {entry.domain: entry.version for entry in model.opset_import}
    if any(not v.type.HasField("tensor_type") for v in (*model.graph.input, *model.graph.output)):
        return False
    return not model.functions and all(
        mapping(n.domain, n.op_type, versions.get(n.domain, 0)) is not None
        and not any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in n.attribute)
        for n in model.graph.node
    )


DISPUTED = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
    "test_maxunpool_export_with_output_shape",
}
"""Resize: expects the last corner at a fractional size, before it is rounded down. MaxUnpool: expects places
in the shape that would be inferred, not in the given one (onnx/onnx#2398). ONNX Runtime disagrees as well.
"""
UNTESTED = ("training", "bernoulli")
"""Random numbers, and what depends on them."""
LOOPS = {"LinearAttention"}
"""Ops that become loops, which are not evaluated eagerly; ``test_contrib_superseded`` has them."""
COVERED = 1600
"""Cases that are tested, at least."""


def _is_tested(case: Any) -> bool:
    if case.name in DISPUTED or any(word in case.name for word in UNTESTED):
        return False
    return _is_covered(case) and LOOPS.isdisjoint(node.op_type for node in case.model.graph.node)


@pytest.fixture(scope="module")
def cases() -> dict[tuple[str, str], list[Any]]:
    """Cases by the op of their first node. Listing them takes seconds, because ONNX computes their data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        listed = load_model_tests(kind="node")
    by_op: dict[tuple[str, str], list[Any]] = {}
    for case in listed:
        if _is_tested(case):
            first = case.model.graph.node[0]
            by_op.setdefault((first.domain, first.op_type), []).append(case)
    return by_op


@pytest.mark.parametrize(("domain", "op_type"), MAPPINGS)
def test_node_cases_of_onnx(cases: dict[tuple[str, str], list[Any]], domain: str, op_type: str) -> None:
    for case in cases.get((domain, op_type), []):
        with noted(case.name):
            check(case)


def test_most_cases_of_onnx_are_tested(cases: dict[tuple[str, str], list[Any]]) -> None:
    assert cases.keys() <= MAPPINGS.keys()
    assert sum(map(len, cases.values())) >= COVERED


def check(case: Any) -> None:
    """Evaluates ``case`` and compares its outputs with ONNX's."""
    graph = case.model.graph
    versions = {entry.domain: entry.version for entry in case.model.opset_import}
    for inputs, outputs in case.data_sets:
        names = [v.name for v in graph.input]
        values = {name: Eager(_array(a)) for name, a in zip(names, inputs, strict=True)}
        values |= {t.name: Eager(numpy_helper.to_array(t)) for t in graph.initializer}
        for node in graph.node:
            convert = mapping(node.domain, node.op_type, versions[node.domain])
            assert convert is not None
            made = convert(EagerImporter(node, versions[node.domain], values))  # type: ignore[arg-type]  # eager
            made = made if isinstance(made, tuple) else (made,)
            values.update((name, v) for name, v in zip(node.output, made, strict=False) if name)
        for output, expected in zip(graph.output, outputs, strict=True):
            _compare(values[output.name].array, _array(expected), case)


def _array(value: Any) -> Array:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _compare(actual: Array, expected: Array, case: Any) -> None:
    assert type_of(actual) == type_of(expected)
    if actual.dtype.kind in "OSU":
        assert [_text(v) for v in actual.ravel()] == [_text(v) for v in expected.ravel()]
        return
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    rtol = max(
        case.rtol, 2e-2 if actual.dtype.name == "bfloat16" else 2e-3 if actual.dtype.name == "float16" else 0
    )
    np.testing.assert_allclose(
        actual.astype(wide), expected.astype(wide), rtol, max(case.atol, 1e-6), equal_nan=True
    )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


EXPERIMENTAL = (
    *("Affine", "Crop", "DynamicSlice", "ImageScaler", "MeanVarianceNormalization"),
    *("ParametricSoftplus", "Scale", "ScaledTanh", "ThresholdedRelu"),
)
"""Ops that ONNX's first opset had as experiments, and has no schema for any more."""
CONTRIBUTED = {
    *(("LayerNormalization", 1), ("SimplifiedLayerNormalization", 1)),
    *((op_type, 1) for op_type in EXPERIMENTAL),
}
"""What is written in the default domain, though ONNX has no such op or version: by ONNX Runtime's tools, or
once as experiments.
"""


@pytest.mark.parametrize(("domain", "op_type"), [k for k in MAPPINGS if k[0] == ""])
def test_mappings_name_versions_that_onnx_has(domain: str, op_type: str) -> None:
    since = {
        s.since_version
        for s in defs.get_all_schemas_with_history()
        if (s.domain, s.name) == (domain, op_type)
    }
    mapped = {version for version in MAPPINGS[domain, op_type] if (op_type, version) not in CONTRIBUTED}
    assert mapped <= since, f"{op_type} did not change in opsets {sorted(mapped - since)}: {sorted(since)}"
    if not mapped:
        return
    at_7 = max((v for v in since if v <= 7), default=min(since))
    assert min(mapped) <= at_7, f"{op_type} of opset {at_7} is not mapped"
