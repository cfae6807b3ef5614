"""What the tests of ops share: inputs of samples, graphs of them, a NumPy evaluator of expressions."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.inference.infer import evaluate
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import Apply, Bits, Cast, Const, Position, Ref, Scalar
from graphwright.ir.op import Arg, Op, Sample
from graphwright.ir.symbols import Expr, atoms, substitute
from graphwright.ir.symbols import evaluate as evaluate_dim
from graphwright.ir.types import STRING, DType, TensorType

Array = np.ndarray[Any, Any]

SIZES = (3, 5, 4, 7)
"""What the symbols of a sample stand for, in order of their names."""


@contextmanager
def noted(text: str) -> Iterator[None]:
    """Adds ``text`` to a failure in the block, to say which of many samples fails."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        error.add_note(text)
        raise


def bindings(sample: Sample) -> dict[str, int]:
    """A size for each symbol of the sample's inputs."""
    names = {a.name for i in sample.inputs if i is not None for d in i.type.shape or () for a in atoms(d)}
    return {name: SIZES[k % len(SIZES)] for k, name in enumerate(sorted(names))}


def array_of(arg: Arg, sizes: dict[str, int], rng: np.random.Generator) -> Array:
    """An array as ``arg`` asks for."""
    shape = tuple(evaluate_dim(d, sizes) for d in arg.type.dims)
    dtype = arg.type.dtype
    if dtype.element is not None:
        return _container(dtype, rng)
    if arg.values is not None:
        return np.array(arg.values, dtype=dtype.numpy).reshape(shape)
    return np.asarray(_filled(arg.fill, dtype, shape, rng)).astype(dtype.numpy)


def _container(dtype: DType, rng: np.random.Generator) -> Any:
    """A value of a container: lists have two tensors [2, 3]."""
    if dtype.kind == "optional":
        return _container(dtype.element, rng)
    if dtype.kind == "sequence":
        return [_container(dtype.element, rng) for _ in range(2)]
    if dtype.kind == "map":
        keys = ["s0", "s1", "s2"] if dtype.key == STRING else [2, 0, 1]
        values = np.asarray(_filled("normal", dtype.element, (3,), rng)).astype(dtype.element.numpy)
        return dict(zip(keys, values.tolist(), strict=True))
    return np.asarray(_filled("normal", dtype, (2, 3), rng)).astype(dtype.numpy)


def _filled(fill: str, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if dtype == STRING:
        return np.array([f"s{k}" for k in rng.integers(0, 4, int(np.prod(shape)))], dtype=object).reshape(
            shape
        )
    if fill == "mask" or dtype.kind == "bool":
        return rng.integers(0, 2, shape)
    if fill == "index":
        return rng.integers(0, 3, shape)
    if fill == "unit":
        return rng.uniform(-0.99, 0.99, shape)
    if fill == "positive":
        return rng.integers(1, 6, shape) if dtype.is_integer else rng.uniform(0.1, 3, shape)
    if dtype.is_integer:
        return rng.integers(0 if dtype.kind == "uint" else -5, 6, shape)
    return rng.normal(size=shape)


def arrays_of(sample: Sample, seed: int = 0) -> list[Array | None]:
    """Seeded inputs of a sample."""
    rng = np.random.default_rng(zlib.crc32(f"{sample.op.name}{seed}".encode()))
    sizes = bindings(sample)
    return [None if a is None else array_of(a, sizes, rng) for a in sample.inputs]


def sample_node(sample: Sample) -> tuple[Module, Builder, Node]:
    """A graph of the sample's op alone. Inputs with ``values`` are constants, the others the graph's own."""
    module = Module()
    b, values = new_main_graph(
        module,
        [(f"x{k}", a.type) for k, a in enumerate(sample.inputs) if a is not None and a.values is None],
    )
    feeds = iter(values)
    rng = np.random.default_rng(0)
    operands = [
        None
        if a is None
        else next(feeds)
        if a.values is None
        else b.const(array_of(a, bindings(sample), rng))
        for a in sample.inputs
    ]
    node = b.node(sample.op, *operands)
    b.graph.set_outputs(node.outputs)
    return module, b, node


def bound(type: TensorType, sizes: dict[str, int]) -> TensorType:
    """``type`` with its symbols replaced by sizes."""
    shape = None if type.shape is None else tuple(substitute(d, sizes) for d in type.shape)
    return TensorType(type.dtype, shape)


def run_reference(op: Op, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    """The op's reference, operands folded first; inputs are read-only."""
    return evaluate(op, [None if a is None else _sealed(a) for a in arrays])


def _sealed(array: Any) -> Any:
    """A copy that cannot be written."""
    if isinstance(array, list):
        return [_sealed(item) for item in array]
    if isinstance(array, dict):
        return dict(array)
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def bound_op(op: Op, sizes: Mapping[str, Any]) -> Op:
    """``op`` with the symbols in its attributes replaced by sizes."""
    return dataclasses.replace(op, **{k: _bound(v, sizes) for k, v in op.attributes().items()})  # type: ignore[type-var]


def _bound(attribute: Any, sizes: Mapping[str, Any]) -> Any:
    if isinstance(attribute, tuple):
        return tuple(_bound(part, sizes) for part in attribute)
    return substitute(attribute, sizes) if isinstance(attribute, Expr) else attribute


def run_graph(module: Module, graph: Graph, feeds: dict[Value, Array], sizes: dict[str, int]) -> list[Array]:
    """Evaluate a graph without regions by the references of its ops."""
    known = dict(feeds)
    for node in graph:
        if isinstance(node.op, Constant):
            known[node.output] = module.constants[node.op.value]
            continue
        results = run_reference(
            bound_op(node.op, sizes), [None if v is None else known[v] for v in node.inputs]
        )
        known.update(zip(node.outputs, results, strict=True))
    return [known[v] for v in graph.outputs]


def evaluate_scalar(scalar: Scalar, operands: dict[str, Array], sizes: dict[str, int]) -> Any:
    """A scalar tree over whole arrays (broadcasting): what every emitter must agree with."""
    with np.errstate(all="ignore"):
        return _evaluate(scalar, operands, sizes)


def _evaluate(scalar: Scalar, operands: dict[str, Array], sizes: dict[str, int]) -> Any:
    match scalar:
        case Const(value, dtype):
            return np.asarray(value).astype(dtype.numpy)
        case Ref(name):
            return operands[name]
        case Position(index, dtype):
            return np.asarray(evaluate_dim(index, sizes), dtype.numpy)
        case Cast(operand, dtype):
            return np.asarray(_evaluate(operand, operands, sizes)).astype(dtype.numpy)
        case Bits(operand, dtype):
            return np.asarray(_evaluate(operand, operands, sizes)).view(dtype.numpy)
        case Apply(function, parts, dtype):
            result = FUNCTIONS[function].numpy(*(_evaluate(part, operands, sizes) for part in parts))
            return np.asarray(result).astype(dtype.numpy)
    raise TypeError(f"{scalar} is no elementwise scalar")


def expression_result(op: Op, arrays: Sequence[Array | None], types: Sequence[TensorType | None]) -> Array:
    """Evaluates ``op.expression`` on whole arrays."""
    refs = [None if t is None else Ref(f"x{k}", t.dtype) for k, t in enumerate(types)]
    scalar = op.expression(*refs)  # type: ignore[arg-type]  # absent optional inputs are None
    return np.asarray(
        evaluate_scalar(scalar, {f"x{k}": a for k, a in enumerate(arrays) if a is not None}, {})
    )


TOLERANCE = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5, "f64": 1e-11}


def assert_close(actual: Array, expected: Array, what: str, scale: float = 1.0) -> None:
    """Equal for integers, bools and texts; for floats within a few ulp of the largest element; lists deep."""
    if isinstance(expected, list):
        assert isinstance(actual, list), f"{what}: {type(actual)} instead of a list"
        for a, e in zip(actual, expected, strict=True):
            assert_close(a, e, what, scale)
        return
    if isinstance(expected, dict):
        assert list(actual) == list(expected), f"{what}: {list(actual)} instead of {list(expected)}"
        assert_close([*map(np.asarray, actual.values())], [*map(np.asarray, expected.values())], what, scale)
        return
    if expected is None:
        assert actual is None, f"{what}: {actual} instead of nothing"
        return
    assert actual.dtype == expected.dtype, f"{what}: {actual.dtype} instead of {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: {actual.shape} instead of {expected.shape}"
    tolerance = TOLERANCE.get({"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}.get(
        actual.dtype.name, ""), 0.0) * scale  # fmt: skip
    if not tolerance:
        plain = actual.dtype.kind in "iubO"
        pair = (actual, expected) if plain else (actual.astype(np.float64), expected.astype(np.float64))
        np.testing.assert_array_equal(*pair, err_msg=what)
        return
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    finite = e[np.isfinite(e)]
    size = float(np.abs(finite).max()) if finite.size else 1.0
    np.testing.assert_allclose(
        a, e, rtol=tolerance, atol=tolerance * max(size, 1e-30), equal_nan=True, err_msg=what
    )
