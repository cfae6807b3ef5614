"""Quantization, and products and convolutions of quantized integers, against NumPy and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import graphwright as gw
from graphwright.errors import ModelError
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import symbol
from graphwright.ir.types import DTYPES, F32, I8, U8, tensor
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.matmul_integer import MatMulInteger
from graphwright.ops.quantized.quantize_linear import QuantizeLinear

from .peer import RefusedError, compare, imported
from .support import Array, run_reference

INT4, UINT2 = DTYPES["i4"].numpy, DTYPES["u2"].numpy
ONNX_I8, ONNX_I16, ONNX_F32, ONNX_F16 = 3, 5, 1, 10
"""Numbers of dtypes in ONNX."""


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def check(op_type: str, inputs: list[Any], attributes: dict[str, Any] | None = None, **more: Any) -> None:
    """:func:`compare`, with scalars of NumPy as arrays."""
    compare(op_type, [np.asarray(value) for value in inputs], attributes, **more)


def integers(seed: int, dtype: Any, *shape: int) -> Array:
    """Over the whole range of ``dtype``."""
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def weights(seed: int, *shape: int) -> Array:
    """7 bits: without VNNI, ONNX Runtime sums pairs of products of bytes in 16 bits, which saturate."""
    return np.random.default_rng(seed).integers(-64, 64, shape).astype(np.int8)


def scales(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(0.003, 0.05, shape).astype(np.float32)


HALVES = np.arange(-350, 350, 7, dtype=np.float32).reshape(2, 5, 10) / 4
"""Many of them lie half way between two multiples of 0.5."""
PER_AXIS = np.array([0.5, 0.25, 1, 2, 0.125], np.float32)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16])
def test_quantizing_is_that_of_onnx_runtime(dtype: Any) -> None:
    zero = integers(1, dtype)
    check("QuantizeLinear", [HALVES, np.float32(0.5), zero], opset=21)
    check("QuantizeLinear", [HALVES, PER_AXIS, integers(2, dtype, 5)], opset=21)
    check("QuantizeLinear", [HALVES[0], scales(3, 10), integers(2, dtype, 10)], {"axis": -1}, opset=21)
    blocks = [HALVES, scales(4, 2, 5, 4), integers(5, dtype, 2, 5, 4)]
    check("QuantizeLinear", blocks, {"axis": 2, "block_size": 3}, opset=21)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16])
def test_dequantizing_is_that_of_onnx_runtime(dtype: Any) -> None:
    x = integers(6, dtype, 2, 5, 10)
    check("DequantizeLinear", [x, np.float32(0.5), integers(1, dtype)], opset=21)
    check("DequantizeLinear", [x, PER_AXIS, integers(2, dtype, 5)], opset=21)
    check("DequantizeLinear", [x, np.float16(0.02)], opset=21, tolerance=1e-3)
    blocks = [x, scales(4, 2, 5, 4), integers(5, dtype, 2, 5, 4)]
    check("DequantizeLinear", blocks, {"axis": 2, "block_size": 3}, opset=21)


@pytest.mark.parametrize("opset", [10, 13, 19])
def test_early_opsets_of_quantization_are_imported(opset: int) -> None:
    check("QuantizeLinear", [HALVES, np.float32(0.5)], opset=opset)
    check("QuantizeLinear", [HALVES, np.float32(0.5), np.int8(-3)], opset=opset)
    check("DequantizeLinear", [integers(0, np.int8, 7), np.float32(0.5), np.int8(-3)], opset=opset)
    check("DequantizeLinear", [integers(0, np.int32, 7), np.float32(0.5)], opset=opset)


def test_halves_go_to_the_even_integer_before_the_zero_point_is_added() -> None:
    x = f32(0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 300, -300)
    (y,) = imported("QuantizeLinear", [x, np.float32(1), np.uint8(1)], {}, 21)
    assert y.tolist() == [1, 3, 3, 1, 0, 255, 255, 0]


def test_quantization_to_few_bits_saturates() -> None:
    x = f32(-100, -1.5, -0.5, 0.5, 2.5, 100)
    (four,) = imported("QuantizeLinear", [x, np.float32(0.5), np.array(1, INT4)], {}, 21)
    assert four.dtype == INT4
    assert four.astype(int).tolist() == [-8, -2, 0, 2, 6, 7]
    (two,) = imported("QuantizeLinear", [x, np.float32(1), np.array(1, UINT2)], {}, 25)
    assert two.astype(int).tolist() == [0, 0, 1, 1, 3, 3]
    back = imported("DequantizeLinear", [two, np.float32(0.5), np.array(1, UINT2)], {}, 25)[0]
    assert back.tolist() == [-0.5, -0.5, 0, 0, 1, 1]


@pytest.mark.parametrize(("name", "largest"), [("f8e4m3fn", 448), ("f8e5m2", 57344), ("f8e4m3fnuz", 240)])
def test_floats_of_8_bits_saturate_or_overflow(name: str, largest: float) -> None:
    x, zero = f32(1e6, -1e6, 3), np.zeros((), DTYPES[name].numpy)
    clipped = imported("QuantizeLinear", [x, np.float32(2), zero], {}, 19)[0].astype(np.float32)
    assert clipped.tolist() == [largest, -largest, 1.5]
    free = imported("QuantizeLinear", [x, np.float32(2), zero], {"saturate": 0}, 19)[0].astype(np.float32)
    assert not np.isfinite(free[:2]).any()
    assert free[2] == 1.5


def test_the_quotient_is_formed_in_the_dtype_of_the_scale_or_as_asked() -> None:
    x = f32(2049)  # 2048 in f16
    (own,) = imported("QuantizeLinear", [x, np.float16(1), np.int16(0)], {}, 23)
    (asked,) = imported("QuantizeLinear", [x, np.float16(1), np.int16(0)], {"precision": ONNX_F32}, 23)
    assert (own.item(), asked.item()) == (2048, 2049)
    (high,) = imported("QuantizeLinear", [f32(60000), np.float16(1), np.uint16(5000)], {}, 23)
    assert high.item() == 65000  # 60000 is an f16; the sum, 65000, would be rounded to 64992


def test_16_bits_are_dequantized_to_halves_with_one_rounding() -> None:
    x = np.array([65535, 32768, 0], np.uint16)
    (y,) = imported("DequantizeLinear", [x, np.float16(0.5), np.uint16(1)], {}, 21)
    assert y.dtype == np.float16
    assert y.tolist() == [32768.0, 16384.0, -0.5]
    (wide,) = imported("DequantizeLinear", [x, np.float16(0.5)], {"output_dtype": ONNX_F32}, 23)
    assert wide.dtype == np.float32
    assert wide.tolist() == [32767.5, 16384.0, 0.0]


def test_scales_that_are_powers_of_two() -> None:
    power = np.array([0.25, 8], DTYPES["f8e8m0"].numpy)
    grid = np.array([[1, 2], [3, 4]], np.int8)
    (y,) = imported("DequantizeLinear", [grid, power], {"output_dtype": ONNX_F16}, 24)
    assert (y.dtype, y.tolist()) == (np.float16, [[0.25, 16], [0.75, 32]])
    (back,) = imported("QuantizeLinear", [y.astype(np.float32), power], {"output_dtype": ONNX_I8}, 24)
    assert (back.dtype, back.tolist()) == (np.int8, [[1, 2], [3, 4]])


def test_the_dtype_of_the_result() -> None:
    x = f32(-1, 70)
    assert imported("QuantizeLinear", [x, np.float32(1)], {}, 21)[0].tolist() == [0, 70]
    signed = imported("QuantizeLinear", [x, np.float32(1)], {"output_dtype": ONNX_I16}, 21)[0]
    assert (signed.dtype, signed.tolist()) == (np.int16, [-1, 70])
    with pytest.raises(RefusedError, match="output_dtype is i16, but the zero point is u8"):
        imported("QuantizeLinear", [x, np.float32(1), np.uint8(0)], {"output_dtype": ONNX_I16}, 21)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blocks_of_any_size_are_scaled_by_their_own_element(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=3).map(tuple))
    axis, block = data.draw(st.integers(-len(shape), len(shape) - 1)), data.draw(st.integers(1, 9))
    blocked = list(shape)
    blocked[axis] = -(-shape[axis] // block)
    seed = data.draw(st.integers(0, 99))
    x, scale = integers(seed, np.int8, *shape), scales(seed, *blocked)
    zero = integers(seed + 1, np.int8, *blocked)
    op = DequantizeLinear(F32, axis, block)
    (y,) = run_reference(op, [x, scale, zero])
    assert y.shape == x.shape
    for place in np.ndindex(shape):
        of = list(place)
        of[axis] //= block
        if np.size(scale) == 1 and scale.ndim == 1:
            of = [0]
        wanted = np.float32(int(x[place]) - int(zero[tuple(of)])) * scale[tuple(of)]
        assert y[place] == wanted
    (back,) = run_reference(QuantizeLinear(I8, axis, block), [y, scale, zero])
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize(
    "x",
    [f32(0, 2, -3, -2.5, 1.34, 0.5), f32(-1, -4), f32(1, 4, 2.345), f32(0, 0), HALVES, f32(1e-30, 0)],
    ids=["both", "negative", "positive", "zero", "three axes", "tiny"],
)
def test_dynamic_quantization_is_that_of_onnx_runtime(x: Array) -> None:
    check("DynamicQuantizeLinear", [x], opset=11, outputs=3, tolerance=1e-7)


def test_dynamic_quantization_of_nothing() -> None:
    y, scale, zero = imported("DynamicQuantizeLinear", [np.zeros((0, 3), np.float32)], {}, 11, 3)
    assert (y.shape, scale.item(), zero.item()) == ((0, 3), 1, 0)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    kinds=st.tuples(*[st.sampled_from([np.uint8, np.int8])] * 2),
    per=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 99),
)
def test_integer_products_are_exact(
    sizes: tuple[int, int, int], kinds: tuple[Any, Any], per: tuple[bool, bool], seed: int
) -> None:
    (m, k, n), (left, right) = sizes, kinds
    a, b = integers(seed, left, m, k), integers(seed + 1, right, k, n)
    a_zero, b_zero = (
        integers(seed + 2, kind, *([size] if each else []))
        for kind, size, each in ((left, m, per[0]), (right, n, per[1]))
    )
    rows = a_zero.astype(np.int64).reshape(-1, 1)
    columns = b_zero.astype(np.int64).reshape(1, -1)
    wanted = (a.astype(np.int64) - rows) @ (b.astype(np.int64) - columns)
    (y,) = run_reference(MatMulInteger(), [a, b, a_zero, b_zero])
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, wanted)


def test_integer_products_of_stacks() -> None:
    a, b = integers(0, np.uint8, 2, 3, 4), weights(1, 4, 5)
    check("MatMulInteger", [a, b, np.uint8(7), np.int8(-3)], opset=10)
    check("MatMulInteger", [a[0], b, np.uint8(7), integers(2, np.int8, 5)], opset=10)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_quantized_products_are_those_of_onnx_runtime(kind: Any) -> None:
    a, b = integers(0, kind, 6, 20), weights(1, 20, 7)
    one = np.float32(0.02)
    inputs = [a, one, integers(3, kind), b, one, np.int8(5), np.float32(0.9), integers(4, kind)]
    check("QLinearMatMul", inputs, opset=10)
    inputs[4], inputs[5] = scales(6, 7), integers(7, np.int8, 7)
    check("QLinearMatMul", inputs, opset=10)


@pytest.mark.parametrize("shape", [(7,), (1, 7), (2, 1, 7)], ids=str)
def test_a_vector_times_a_matrix_whose_columns_have_scales(shape: tuple[int, ...]) -> None:
    a, b = integers(0, np.uint8, 20), weights(1, *shape[:-2], 20, 7)
    one, columns = np.float32(0.02), np.linspace(0.01, 0.03, 7).astype(np.float32)
    scale, zero = np.broadcast_to(columns, shape), np.zeros(shape, np.int8)
    inputs = [a, one, np.uint8(3), b, scale, zero, np.float32(0.9), np.uint8(4)]
    (y,) = imported("QLinearMatMul", inputs, {}, 10)
    wanted = (a.astype(np.int64) - 3) @ b * (columns * 0.02 / 0.9) + 4
    assert np.abs(y - np.clip(np.rint(wanted), 0, 255)).max() <= 1


@pytest.mark.parametrize("shape", [(6,), (6, 1), (2, 6, 1)], ids=str)
def test_a_matrix_whose_rows_have_scales_times_a_vector(shape: tuple[int, ...]) -> None:
    a, b = integers(0, np.uint8, *shape[:-2], 6, 20), weights(1, 20)
    one, rows = np.float32(0.02), np.linspace(0.01, 0.03, 6).astype(np.float32)
    scale, zero = np.broadcast_to(rows[:, None], shape) if shape[1:] else rows, np.zeros(shape, np.uint8)
    inputs = [a, scale, zero, b, one, np.int8(5), np.float32(0.9), np.uint8(4)]
    (y,) = imported("QLinearMatMul", inputs, {}, 10)
    wanted = a @ (b.astype(np.int64) - 5) * (rows * 0.02 / 0.9) + 4
    assert np.abs(y - np.clip(np.rint(wanted), 0, 255)).max() <= 1


def test_small_scales_of_halves_do_not_vanish() -> None:
    a, b, zero, tiny = (
        np.full((1, 4), 100, np.uint8),
        np.full((4, 1), 100, np.uint8),
        np.uint8(0),
        np.float16(1e-4),
    )
    inputs = [a, tiny, zero, b, tiny, zero, np.float16(1e-5), zero]
    (y,) = imported("QLinearMatMul", inputs, {}, 21)
    exact = 40000 * float(tiny) ** 2 / float(np.float16(1e-5))
    assert y.tolist() == [[round(exact)]]


CONVOLUTIONS = [
    {},
    {"pads": [1, 1, 1, 1]},
    {"strides": [2, 1], "pads": [0, 1, 2, 0]},
    {"dilations": [2, 2]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
]


@pytest.mark.parametrize("attributes", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("group", [1, 2])
def test_convolutions_of_integers_are_those_of_onnx_runtime(attributes: dict[str, Any], group: int) -> None:
    x, w = integers(0, np.uint8, 2, 4, 8, 7), integers(1, np.uint8, 6, 4 // group, 3, 3)
    given = attributes | {"group": group}
    check("ConvInteger", [x, w, np.uint8(9), np.uint8(100)], given, opset=10)
    inputs = [x, np.float32(0.02), np.uint8(9), weights(1, *w.shape), scales(2, 6), np.zeros(6, np.int8),
              np.float32(0.5), np.uint8(120), integers(3, np.int16, 6).astype(np.int32)]  # fmt: skip
    check("QLinearConv", inputs, given, opset=10)


def test_sizes_stay_symbols() -> None:
    n, m = symbol("N"), symbol("M")
    b, (x, scale, byte) = new_main_graph(
        Module(), [("x", tensor(F32, n, m)), ("s", tensor(F32, m)), ("b", tensor(U8, m, 4))]
    )
    quantized = b(QuantizeLinear(U8, -1), x, scale)
    assert quantized.type == tensor(U8, n, m)
    assert str(b(MatMulInteger(), quantized, byte).type) == "i32[N, 4]"


def test_a_branch_has_one_scale_for_a_vector_that_lacks_the_axis() -> None:
    """The scale is dynamic, and the constraint that it has one element is not known outside of the branch."""
    source = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (bool c, float[N] x, float[S] scale, uint8[Z] zero) => (float[M] y) {
            y = If (c) <
                then_branch = t () => (float[P] a) {
                    q = QuantizeLinear (x, scale, zero) a = DequantizeLinear (q, scale, zero)
                },
                else_branch = e () => (float[Q] b) { b = Neg (x) }
            >
        }""")
    x, one = f32(-7, 0.7, 2.6, 99), (f32(0.5), np.array([3], np.uint8))
    compiled = gw.compile(source)
    np.testing.assert_array_equal(compiled(np.array(True), x, *one)[0], f32(-1.5, 0.5, 2.5, 99))
    np.testing.assert_array_equal(compiled(np.array(False), x, *one)[0], -x)


def test_another_granularity_is_rejected() -> None:
    b, (x, scale) = new_main_graph(Module(), [("x", tensor(F32, 2, 7)), ("s", tensor(F32, 2, 3))])
    assert b(QuantizeLinear(U8, 1, 3), x, scale).type == tensor(U8, 2, 7)
    with pytest.raises(ModelError, match="3 and 2 differ"):
        b(QuantizeLinear(U8, 1, 4), x, scale)


@pytest.mark.parametrize("name", ["FLOAT6E2M3", "FLOAT6E3M2", "FLOAT4E2M1"])
def test_floats_of_few_bits(name: str) -> None:
    """Stored, converted, quantized and dequantized, also from operands."""
    kind = getattr(TensorProto, name)
    stored = np.array([0.1, -1, 2.2, 100, -0.0], np.float32).astype(helper.tensor_dtype_to_np_dtype(kind))
    nodes = [
        helper.make_node("Cast", ["x"], ["code"], to=kind),
        helper.make_node("Cast", ["code"], ["rounded"], to=TensorProto.FLOAT),
        helper.make_node("QuantizeLinear", ["x", "scale"], ["q"], output_dtype=kind),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "scale"], ["e"]),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [5]) for n in ("rounded", "d", "e")]
    outputs.append(helper.make_tensor_value_info("code", kind, [5]))
    graph = helper.make_graph(
        nodes, "one", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])], outputs,
        [numpy_helper.from_array(stored, "w"), numpy_helper.from_array(np.float32(0.3), "scale")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=14)
    fed = {"x": np.array([0.3, -1.2, 7.6, -31, 1e-3], np.float32)}
    expected = ReferenceEvaluator(model).run(None, fed)
    for device in ("cpu", "reference"):
        found = gw.compile(model, options=gw.CompileOptions(device=device)).run(fed).values()
        for got, wanted in zip(found, expected, strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))
