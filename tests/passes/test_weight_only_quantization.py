"""Weight-only quantization in each form that exporters write: weights stay codes, and results equal those of
the dequantized matrix.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

import graphwright as gw
from graphwright.ir.graph import Module
from graphwright.ir.op import Op
from graphwright.ops.quantized.matmul_integer import MatMulInteger
from graphwright.ops.quantized.matmul_nbits import MatMulNBits
from graphwright.records import replace

CPU = gw.CompileOptions(device="cpu", threads=1)
DTYPES = {
    "i4": (ml_dtypes.int4, -8, 8), "u4": (ml_dtypes.uint4, 0, 16), "i2": (ml_dtypes.int2, -2, 2),
    "u2": (ml_dtypes.uint2, 0, 4), "i8": (np.int8, -128, 128), "u8": (np.uint8, 0, 256),
}  # fmt: skip


def model_of(nodes: list[Any], constants: dict[str, Any], k: int, rows: Any = "rows") -> ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, k])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


def compiled(model: ModelProto, kind: type[Op], **options: Any) -> tuple[gw.Model, int]:
    """The model, and how many nodes of ``kind`` its kernels were chosen for."""
    counts: list[int] = []

    def observe(stage: str, made: object) -> None:
        if isinstance(made, Module):
            counts.append(sum(isinstance(node.op, kind) for node in made.walk()))

    own = gw.compile(model, options=replace(CPU, **options), observe=observe)
    assert own.stats()["host_calls"] == 0
    return own, max(counts)


@st.composite
def products(draw: st.DrawFn) -> dict[str, Any]:
    """A product of x with weights [K, N], or [N, K] where ``form`` is transposed or a Gemm."""
    name, form = draw(st.sampled_from(list(DTYPES))), draw(st.sampled_from(["matmul", "transposed", "gemm"]))
    k, n = draw(st.sampled_from([1, 16, 40, 96, 129])), draw(st.sampled_from([1, 5, 48, 50]))
    scales, zeros = draw(st.sampled_from(["one", "columns", "blocks"])), draw(st.booleans())
    return dict(
        name=name, form=form, k=k, n=n, scales=scales, zeros=zeros, block=draw(st.sampled_from([16, 32, 48]))
    )


@settings(max_examples=14, deadline=None)
@given(products(), st.integers(0, 2**32 - 1))
def test_products_are_those_of_the_dequantized_weights(case: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype, low, high = DTYPES[case["name"]]
    k, n, block, turned = case["k"], case["n"], case["block"], case["form"] != "matmul"
    axis = int(turned)
    w = rng.integers(low, high, (n, k) if turned else (k, n))
    blocks = -(-k // block)
    shape: tuple[int, ...] = {"one": (), "columns": (n,), "blocks": (n, blocks) if turned else (blocks, n)}[
        case["scales"]
    ]
    scale = rng.uniform(0.5, 1.5, shape).astype(np.float32)
    zero = rng.integers(low, high, shape)
    constants = {"w": w.astype(dtype), "scale": scale}
    if case["zeros"]:
        constants["zero"] = np.asarray(zero).astype(dtype)
    attributes = {"axis": axis, "block_size": block} if case["scales"] == "blocks" else {"axis": 1 - axis}
    nodes = [helper.make_node("DequantizeLinear", list(constants), ["d"], **attributes)]
    last = "d"
    if case["form"] == "transposed":
        nodes.append(helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]))
        last = "t"
    if case["form"] == "gemm":
        constants["bias"] = rng.standard_normal(n).astype(np.float32)
        nodes.append(helper.make_node("Gemm", ["x", "d", "bias"], ["y"], transB=1))
    else:
        nodes.append(helper.make_node("MatMul", ["x", last], ["y"]))
    own, packed = compiled(model_of(nodes, constants, k), MatMulNBits)
    assert packed == 1

    def spread(p: Any) -> Any:
        if case["scales"] == "blocks":
            return np.repeat(p, block, axis).take(range(k), axis)
        return p.reshape(-1, 1) if case["scales"] == "columns" and turned else p

    weights = (w - (spread(zero) if case["zeros"] else 0)) * spread(scale).astype(np.float64)
    weights = weights.T if turned else weights
    for rows in (1, 7):
        x = rng.standard_normal((rows, k)).astype(np.float32)
        expected = x.astype(np.float64) @ weights + constants.get("bias", 0)
        limit = np.abs(x).astype(np.float64) @ np.abs(weights) + 4 * high
        assert (np.abs(own.run({"x": x})["y"] - expected) / limit).max() < 2e-6


@pytest.mark.parametrize("name", ["i2", "i4", "i8"])
def test_products_of_special_values(name: str) -> None:
    """Each row has one number and zeros, for few rows and for many: infinity remains infinity."""
    dtype, low, high = DTYPES[name]
    w = np.tile(np.array([high - 1, low], np.float32), (32, 1))
    constants = {"w": w.astype(dtype), "scale": np.full(2, 0.25, np.float32)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"], axis=1),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    own, packed = compiled(model_of(nodes, constants, 32), MatMulNBits)
    assert packed == 1
    numbers = np.array([np.nan, np.inf, -np.inf, 1e36, -1e36, 1e-30, 1 + 2**-8, 1 / 3, -0.0], np.float32)
    for count in (1, 9):
        for first in range(0, 9, count):
            x = np.zeros((count, 32), np.float32)
            x[range(count), 3 * np.arange(count)] = numbers[first : first + count]
            expected = (x.max(1) + x.min(1)).astype(np.float64)[:, None] * w[0] / 4
            np.testing.assert_allclose(own.run({"x": x})["y"], expected, rtol=4e-6, equal_nan=True)


def test_scales_of_each_element_of_a_sum_are_folded_as_before() -> None:
    rng = np.random.default_rng(0)
    w, scale = rng.integers(-8, 8, (20, 6)), rng.uniform(0.5, 1.5, 20).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"], axis=0),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    own, packed = compiled(model_of(nodes, {"w": w.astype(ml_dtypes.int4), "scale": scale}, 20), MatMulNBits)
    x = rng.standard_normal((3, 20)).astype(np.float32)
    assert packed == 0
    np.testing.assert_allclose(own.run({"x": x})["y"], x @ (w * scale[:, None]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("perm", [[0, 1], [1, 0]])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("of_bytes", [False, True])
def test_a_transpose_that_moves_nothing_turns_no_weights(
    perm: list[int], axis: int | None, of_bytes: bool
) -> None:
    rng = np.random.default_rng(0)
    w, scale = rng.integers(-8, 8, (16, 16)), rng.uniform(0.5, 1.5, () if axis is None else 16)
    constants = {
        "w": w.astype(np.int8),
        "scale": scale.astype(np.float32),
        "step": np.array(0.5, np.float32),
        "zero": np.array(3, np.uint8),
    }
    of_axis = {} if axis is None else {"axis": axis}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"], **of_axis),
        helper.make_node("Transpose", ["d"], ["t"], perm=perm),
        helper.make_node("MatMul", ["a" if of_bytes else "x", "t"], ["y"]),
    ]
    x = rng.integers(0, 40, (3, 16)).astype(np.float32)
    weights = (w * (scale[:, None] if axis == 0 else scale)).transpose(perm)
    made = gw.compile(model_of(nodes if of_bytes else nodes[2:], constants, 16), options=CPU)
    np.testing.assert_allclose(made.run({"x": x})["y"], x @ weights, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rows", [3, "rows"])
def test_bytes_times_bytes_stay_integers_at_any_batch(rows: Any) -> None:
    """Weights are not folded to floats during shape inference."""
    rng = np.random.default_rng(0)
    w = rng.integers(-128, 128, (16, 5)).astype(np.int8)
    constants = {"step": np.float32(0.5), "zero": np.uint8(3), "w": w, "scale": np.float32(0.25)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "scale"], ["b"]),
        helper.make_node("MatMul", ["a", "b"], ["y"]),
    ]
    held = {name: np.asarray(array) for name, array in constants.items()}
    own, integer = compiled(model_of(nodes, held, 16, rows), MatMulInteger)
    x = rng.integers(0, 40, (3, 16)).astype(np.float32)
    expected = (np.rint(x / 0.5) * 0.5) @ (w * 0.25)
    assert integer == 1
    np.testing.assert_allclose(own.run({"x": x})["y"], expected, rtol=1e-6)


def test_a_file_holds_the_codes_once(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    w, scale = rng.integers(-8, 8, (512, 480)), rng.uniform(0.5, 1.5, (16, 480)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    own, _ = compiled(model_of(nodes, {"w": w.astype(ml_dtypes.int4), "scale": scale}, 512), MatMulNBits)
    own.save(tmp_path / "packed.om")
    assert (tmp_path / "packed.om").stat().st_size < w.size // 2 + scale.nbytes + 60_000
    x = rng.standard_normal((2, 512)).astype(np.float32)
    loaded = gw.load(tmp_path / "packed.om")
    assert loaded.run({"x": x})["y"].tobytes() == own.run({"x": x})["y"].tobytes()
