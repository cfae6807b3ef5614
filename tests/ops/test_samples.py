"""Every sample of every registered op: types, meaning, expression and decomposition agree."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright.ops
from graphwright.errors import ModelError
from graphwright.ir.graph import Value
from graphwright.ir.inference.infer import folded
from graphwright.ir.op import Op, Sample, Trait, registered_ops
from graphwright.ir.op.region_op import RegionOp
from graphwright.ir.symbols import evaluate
from graphwright.ir.types import F32, DType, type_of

from .support import (
    arrays_of,
    assert_close,
    bindings,
    bound,
    expression_result,
    noted,
    run_graph,
    run_reference,
    sample_node,
)

graphwright.ops.load()
OPS = {name: cls for name, cls in registered_ops().items() if cls.__module__.startswith("graphwright.ops.")}
PACKAGE = Path(graphwright.ops.__file__).parent


def good(sample: Sample) -> bool:
    return not sample.error


def bad(sample: Sample) -> bool:
    return bool(sample.error)


def samples_that(
    are_tested: Callable[[Sample], bool],
) -> Callable[[Callable[[Sample], None]], Callable[[str], None]]:
    """Makes one test per op that tests all its samples that ``are_tested``: starting a test takes pytest
    longer than most samples.
    """
    chosen = {name: [(k, s) for k, s in enumerate(cls.samples) if are_tested(s)] for name, cls in OPS.items()}

    def of_each_op(test: Callable[[Sample], None]) -> Callable[[str], None]:
        @pytest.mark.parametrize("name", [name for name, samples in chosen.items() if samples])
        def test_samples_of_an_op(name: str) -> None:
            for number, sample in chosen[name]:
                with noted(f"{name}, sample {number}"):
                    test(sample)

        test_samples_of_an_op.__name__, test_samples_of_an_op.__doc__ = test.__name__, test.__doc__
        return test_samples_of_an_op

    return of_each_op


def has_regions(cls: type[Op]) -> bool:
    return issubclass(cls, RegionOp)


def assert_of_type(value: Any, dtype: DType) -> None:
    """Containers are lists and None, tensors arrays of their dtype."""
    if dtype.kind == "optional" and value is None:
        return
    if dtype.kind == "sequence":
        assert isinstance(value, list)
        for item in value:
            assert_of_type(item, dtype.element)
    elif dtype.kind == "optional":
        assert_of_type(value, dtype.element)
    else:
        assert type_of(value).dtype == dtype


@samples_that(good)
def test_inferred_types_are_those_of_the_reference(sample: Sample) -> None:
    _module, b, node = sample_node(sample)
    assert len(node.outputs) == sample.op.output_count()
    results = run_reference(sample.op, arrays_of(sample))
    sizes = bindings(sample)
    for value, result in zip(node.outputs, results, strict=True):
        if value.type.dtype.element is not None:
            assert_of_type(result, value.type.dtype)
            fact = b.fact(value)
            if fact is not None and fact.item_types is not None and value.type.dtype.kind == "sequence":
                known = zip(fact.item_types, result, strict=True)
                assert all(held.dtype == type_of(item).dtype for held, item in known)
                assert all(
                    bound(held, sizes) == type_of(item)
                    for held, item in zip(fact.item_types, result, strict=True)
                    if held.shape is not None
                )
            continue
        assert isinstance(result, np.ndarray), f"{sample.op.name} gives {type(result)}"
        if value.type.shape is None:
            assert value.type.dtype == type_of(result).dtype
            continue
        free = {d: n for d, n in zip(value.type.shape, result.shape, strict=True)}
        fresh = {str(d): n for d, n in free.items() if str(d).isidentifier() and str(d) not in sizes}
        assert bound(value.type, sizes | fresh) == type_of(result)


@samples_that(good)
def test_known_elements_are_those_of_the_reference(sample: Sample) -> None:
    _module, b, node = sample_node(sample)
    for value, result in zip(node.outputs, run_reference(sample.op, arrays_of(sample)), strict=True):
        fact = b.fact(value)
        assert fact is not None
        if fact.elements is not None:
            assert [evaluate(e, bindings(sample)) for e in fact.elements] == [int(r) for r in result.ravel()]


@samples_that(lambda sample: good(sample) and sample.op.has_expression())
def test_expression_means_what_the_reference_does(sample: Sample) -> None:
    _module, b, node = sample_node(sample)
    op, facts = folded(sample.op, [b.fact(v) for v in node.inputs])
    arrays = arrays_of(sample)
    kept = [arrays[sample_position] for sample_position in _kept(sample.op, [b.fact(v) for v in node.inputs])]
    (expected,) = run_reference(op, kept)
    actual = expression_result(op, kept, [None if f is None else f.type for f in facts])
    assert_close(np.broadcast_to(actual, expected.shape), expected, op.name)


def _kept(op: Op, facts: list) -> tuple[int, ...]:  # type: ignore[type-arg]
    moved = op.fold_operands(*facts)
    return tuple(range(len(facts))) if moved is None else moved[1]


@samples_that(lambda sample: good(sample) and type(sample.op).decompose is not Op.decompose)
def test_decomposition_means_what_the_reference_does(sample: Sample) -> None:
    module, b, node = sample_node(sample)
    made = sample.op.decompose(b, *node.inputs)
    if made is None:
        return
    made = made if isinstance(made, tuple) else (made,)
    for value, wanted in zip(made, node.outputs, strict=True):
        if value is not None:
            assert value.type == wanted.type
    b.graph.set_outputs([v for v in made if v is not None])
    b.graph.erase(node)
    arrays = arrays_of(sample)
    feeds = {v: a for v, a in zip(node.inputs, arrays, strict=True) if isinstance(v, Value) and a is not None}
    expected = [r for r, v in zip(run_reference(sample.op, arrays), made, strict=True) if v is not None]
    for actual, wanted_array in zip(
        run_graph(module, b.graph, feeds, bindings(sample)), expected, strict=True
    ):
        assert_close(actual, wanted_array, sample.op.name, scale=4)


def has_sign(array: Any) -> bool:
    """Whether an element of a float array is negative or -0.0."""
    return array.dtype.kind == "f" and bool((np.signbit(array) & ~np.isnan(array)).any())


NONNEGATIVE = Trait.NONNEGATIVE | Trait.KEEPS_NONNEGATIVE


@samples_that(lambda sample: good(sample) and NONNEGATIVE in sample.op.traits)
def test_results_have_the_signs_that_their_traits_promise(sample: Sample) -> None:
    arrays = arrays_of(sample)
    if Trait.KEEPS_NONNEGATIVE in sample.op.traits:
        arrays = [a if a is None or a.dtype.kind != "f" else np.asarray(np.abs(a)) for a in arrays]
    assert not any(has_sign(result) for result in run_reference(sample.op, arrays))


@samples_that(bad)
def test_wrong_samples_are_rejected(sample: Sample) -> None:
    with pytest.raises(ModelError) as caught:
        sample_node(sample)
    assert sample.error in str(caught.value)
    assert sample.op.name in str(caught.value)


@pytest.mark.parametrize("name", OPS)
def test_every_op_has_a_sample_and_a_docstring(name: str) -> None:
    cls = OPS[name]
    assert cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("), f"{name} has no docstring"
    if not has_regions(cls):
        assert any(not s.error for s in cls.samples), f"{name} has no sample"
    assert all(type(s.op) is cls for s in cls.samples)


@pytest.mark.parametrize("name", OPS)
def test_every_op_has_a_meaning(name: str) -> None:
    cls = OPS[name]
    assert has_regions(cls) or cls.reference is not Op.reference
    if Trait.ELEMENTWISE in cls.traits:
        assert cls.expression is not Op.expression


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda p: p.stem)
def test_op_files_import_the_ir_alone(path: Path) -> None:
    allowed = ("graphwright.ir", "graphwright.ops", "graphwright.records", "numpy", "ml_dtypes")
    standard = ("__future__", "collections", "dataclasses", "enum", "functools", "importlib", "itertools",
                "math", "pkgutil", "typing", "operator", "string", "re", "unicodedata", "io")  # fmt: skip
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            for name in names:
                assert name.startswith(allowed) or name.split(".")[0] in standard, (
                    f"{path.name} imports {name}"
                )


def keeps_given_dtypes(sample: Sample) -> bool:
    """Whether the op's floats are all f32 and none is fixed by an attribute."""
    floats = {a.type.dtype for a in sample.inputs if a is not None and a.type.dtype.is_float}
    return floats == {F32} and not any(isinstance(v, DType) for v in sample.op.attributes().values())


@samples_that(lambda sample: good(sample) and keeps_given_dtypes(sample))
def test_references_compute_in_the_precision_they_are_given(sample: Sample) -> None:
    arrays = arrays_of(sample)
    wide = [a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else a for a in arrays]
    results = zip(run_reference(sample.op, wide), run_reference(sample.op, arrays), strict=True)
    for precise, single in results:
        if isinstance(single, np.ndarray) and single.dtype == np.float32:
            assert precise.dtype == np.float64
            assert_close(precise.astype(np.float32), single, sample.op.name, scale=20)
