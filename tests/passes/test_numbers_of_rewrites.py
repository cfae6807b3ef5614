"""Rewrites where they are easily wrong: compiled models against onnx.reference on the graph as given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphwright as gw

Array = np.ndarray[Any, Any]
Nodes = tuple[tuple[str, str, str, dict[str, Any]], ...]
"""The op, its inputs and its outputs, separated by commas, and its attributes."""


def check(
    nodes: Nodes,
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array],
    rtol: float = 1e-5,
    atol: float = 0.0,
    dynamic_sizes: bool = False,
) -> None:
    """Asserts that the model of ``nodes`` with the output y gives the same compiled and evaluated node by
    node.

    With ``dynamic_sizes``, the sizes of inputs are symbols.
    """
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(a.dtype),
            [f"{name}{axis}" for axis in range(a.ndim)] if dynamic_sizes else a.shape,
        )
        for name, a in feeds.items()
    ]
    graph = helper.make_graph(
        [helper.make_node(op, i.split(","), o.split(","), **given) for op, i, o, given in nodes],
        "g",
        infos,
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(model).run(None, dict(feeds))[0]
    actual = gw.compile(model).run(dict(feeds))["y"]
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol, atol)


RNG = np.random.default_rng(5)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def attention(choice: tuple[str, str, str, dict[str, Any]]) -> Nodes:
    return (
        ("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}),
        ("MatMul", "q,kt", "s", {}),
        choice,
        ("Softmax", "w", "p", {}),
        ("MatMul", "p,v", "y", {}),
    )


@pytest.mark.parametrize("filler", [-np.inf, -3.4e38, -1e4, 5.0])
@pytest.mark.parametrize("hidden", [1.0, np.inf, np.nan, 3e38])
def test_scores_that_are_replaced_leave_no_trace(filler: float, hidden: float) -> None:
    """Masked keys may have any value, as in a cache that is not full."""
    q, k, v = (normal(1, 2, n, 4) for n in (3, 5, 5))
    k[:, :, 3:] = np.where(np.isfinite(hidden), np.sign(k[:, :, 3:]), 1) * np.float32(hidden)
    seen = np.ones((1, 1, 3, 5), bool)
    seen[..., 3:] = False
    constants = {"n": np.float32(filler)}
    check(attention(("Where", "m,s,n", "w", {})), {"q": q, "k": k, "v": v, "m": seen}, constants, 1e-4, 1e-5)
    check(attention(("Where", "m,n,s", "w", {})), {"q": q, "k": k, "v": v, "m": ~seen}, constants, 1e-4, 1e-5)


@pytest.mark.parametrize(("queries", "keys"), [(1, 5), (3, 1), (1, 1)])
def test_scores_broadcast_by_a_where_are_not_fused_as_attention(queries: int, keys: int) -> None:
    q, k, v = normal(1, 2, queries, 4), normal(1, 2, keys, 4), normal(1, 2, 5, 4)
    feeds = {"q": q, "k": k, "v": v, "m": RNG.random((1, 1, 3, 5)) < 0.6}
    check(attention(("Where", "m,s,n", "w", {})), feeds, {"n": np.float32(-1e4)}, 1e-4, 1e-5)


@pytest.mark.parametrize("scale", [1e25, 1e-25])
def test_scales_beyond_the_range_of_queries_stay_behind_the_product(scale: float) -> None:
    q, k, v = (normal(1, 2, n, 4) for n in (3, 5, 5))
    feeds = {"q": q / np.float32(scale**0.5), "k": k / np.float32(scale**0.5), "v": v}
    nodes = attention(("Mul", "s,c", "w", {}))
    check(nodes, feeds, {"c": np.float32(scale)}, 1e-4, 1e-5)
    twice = (("Mul", "q,c", "q1", {}), ("Mul", "q1,c", "q2", {}), ("Div", "q2,c", "q3", {}))
    renamed = [
        (op, i.replace("q,kt", "q3,kt"), o, given)
        for op, i, o, given in attention(("Identity", "s", "w", {}))
    ]
    check(
        (*twice, *renamed), {"q": q / np.float32(scale), "k": k, "v": v}, {"c": np.float32(scale)}, 1e-4, 1e-5
    )


@pytest.mark.parametrize("op", ["Mul", "Div"])
@pytest.mark.parametrize(
    ("x", "w", "scale"), [(1e-30, 1e20, 1e25), (1e30, 1e-20, 1e-25), (0.0, 1.0, 1e-40), (1.0, 2.0, 3.0)]
)
def test_weights_that_cannot_hold_a_scale_stay_as_they_are(op: str, x: float, w: float, scale: float) -> None:
    factor = np.float32(1) / np.float32(scale) if op == "Div" and scale != 1e-40 else np.float32(scale)
    check(
        (("Conv", "x,w", "c", {}), (op, "c,s", "y", {})),
        {"x": np.full((1, 1, 4, 4), x, np.float32)},
        {"w": np.full((2, 1, 3, 3), w, np.float32), "s": np.full((2, 1, 1), factor, np.float32)},
    )


@pytest.mark.parametrize(
    ("op", "given", "w"),
    [
        ("Conv", {"group": 2}, (4, 2, 3, 3)),
        ("ConvTranspose", {}, (4, 6, 2, 2)),
        ("Gemm", {}, (4, 6)),
    ],
)
@pytest.mark.parametrize("wide", [0, 1])
def test_each_feature_counts_whose_weights_overflow(
    op: str, given: dict[str, Any], w: Any, wide: int
) -> None:
    """f16 weights overflow first; one feature alone overflows, or none."""
    weight = np.abs(RNG.normal(size=w)).astype(np.float16)
    features = {"Conv": 4, "ConvTranspose": 6, "Gemm": 6}[op]
    scale = np.ones(features, np.float16)
    scale[-1] = 6e4 if wide else 2
    x = np.full((1, 4, 5, 5) if op != "Gemm" else (1, 4), 2**-10, np.float16)
    shape = scale if op == "Gemm" else scale[:, None, None]
    check(((op, "x,w", "c", given), ("Mul", "c,s", "y", {})), {"x": x}, {"w": weight, "s": shape}, 5e-3, 1e-4)


@pytest.mark.parametrize("rows", [1, 4])
def test_a_quantized_vector_is_no_matrix_of_columns(rows: int) -> None:
    """Its scales belong to the terms of one sum."""
    check(
        (
            ("DequantizeLinear", "x,xs", "xf", {}),
            ("DequantizeLinear", "w,ws", "wf", {"axis": 0}),
            ("MatMul", "xf,wf", "y", {}),
        ),
        {"x": RNG.integers(-9, 9, (rows, 4)).astype(np.int8)},
        {"xs": np.float32(0.1), "w": RNG.integers(1, 9, 4).astype(np.int8), "ws": np.abs(normal(4))},
    )


@pytest.mark.parametrize(
    ("to", "size"), [("UINT8", 300), ("INT8", 300), ("UINT16", 70000), ("INT16", 70000), ("INT32", 300)]
)
def test_sizes_wrap_in_narrow_integers(to: str, size: int) -> None:
    """A size that was cast to a narrow integer may be another number, which is only known in a run."""
    narrow, wide = int(onnx.TensorProto.DataType.Value(to)), int(onnx.TensorProto.INT64)
    check(
        (
            ("Shape", "x", "s", {}),
            ("Cast", "s", "n", {"to": narrow}),
            ("Cast", "n", "w", {"to": wide}),
            ("ConstantOfShape", "w", "y", {}),
        ),
        {"x": np.zeros(size, np.float32)},
        {},
        dynamic_sizes=True,
    )


@pytest.mark.parametrize("zero", [None, 0, 5])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_zero_that_was_an_integer_has_no_sign(zero: int | None, dtype: Any) -> None:
    """-0.1 is quantized to 0, and the reciprocal of that is infinity, not minus infinity."""
    constants: dict[str, Any] = {"s": np.float32(1)}
    if zero is not None:
        constants["z"] = np.array(zero, dtype)
    operands = ",".join(constants)
    given = {} if zero is not None else {"output_dtype": helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}
    nodes = (
        ("QuantizeLinear", f"x,{operands}", "q", given),
        ("DequantizeLinear", f"q,{operands}", "d", {}),
        ("Reciprocal", "d", "y", {}),
    )
    check(nodes, {"x": np.array([-0.1, 0.1, -0.0, 7, -300, 300], np.float32)}, constants)
