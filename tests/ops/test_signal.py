"""Signal transforms and their windows, compared with their defining sums, NumPy and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import floordiv, symbol
from graphwright.ir.types import F32, I64, tensor, type_of
from graphwright.ops.core import dft
from graphwright.ops.core.dft import DFT
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.mel_weight_matrix import MelWeightMatrix
from graphwright.ops.core.stft import STFT

from .peer import compare, imported
from .support import run_graph

RNG = np.random.default_rng(5)
SIGNAL = RNG.normal(size=(2, 9, 1)).astype(np.float32)
COMPLEX = RNG.normal(size=(2, 9, 3, 2)).astype(np.float32)
WINDOW = np.hanning(6).astype(np.float32)


def scalar(value: int) -> Any:
    return np.array(value, np.int64)


def sums(z: Any, length: int, axis: int, inverse: bool = False) -> Any:
    """The transform by its definition, of ``z`` cut or filled with zeros to ``length``."""
    rows = np.moveaxis(z, axis, -1)[..., :length]
    n, k = np.arange(rows.shape[-1]), np.arange(length)
    turns = np.exp((2j if inverse else -2j) * np.pi * np.outer(n, k) / length)
    return np.moveaxis(rows @ turns / (length if inverse else 1), -1, axis)


def parts(z: Any) -> Any:
    return np.stack([z.real, z.imag], axis=-1)


@settings(max_examples=60, deadline=None)
@given(
    dims=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    length=st.integers(1, 13),
    inverse=st.booleans(),
    real=st.booleans(),
    data=st.data(),
)
def test_dft_is_the_sum_of_its_definition(
    dims: list[int], length: int, inverse: bool, real: bool, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, len(dims) - 1))
    x = np.random.default_rng(length).normal(size=(*dims, 1 if real else 2))
    z = x[..., 0] if real else x[..., 0] + 1j * x[..., 1]
    (y,) = imported("DFT", [x, scalar(length), scalar(axis)], {"inverse": int(inverse)}, 20)
    np.testing.assert_allclose(y, parts(sums(z, length, axis, inverse)), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 9), length=st.integers(1, 13))
def test_onesided_transforms_are_halves_of_whole_ones(size: int, length: int) -> None:
    x = np.random.default_rng(size).normal(size=(2, size, 1))
    (half,) = imported("DFT", [x, scalar(length)], {"onesided": 1}, 20)
    whole = sums(x[..., 0], length, 1)
    np.testing.assert_allclose(half, parts(whole[:, : length // 2 + 1]), atol=1e-12)
    (back,) = imported("DFT", [half, scalar(length)], {"onesided": 1, "inverse": 1}, 20)
    np.testing.assert_allclose(back[:, :size, 0], x[:, :length, 0], atol=1e-12)
    np.testing.assert_allclose(back[:, size:], 0, atol=1e-12)


def test_length_of_a_onesided_inverse_is_even_by_default() -> None:
    x = RNG.normal(size=(1, 8))
    (y,) = imported("DFT", [parts(np.fft.rfft(x))], {"onesided": 1, "inverse": 1}, 20)
    np.testing.assert_allclose(y[..., 0], x, atol=1e-12)


@pytest.mark.parametrize("opset", [17, 19])
@pytest.mark.parametrize("axis", [1, -2, 2])
def test_axis_is_an_attribute_before_opset_20(opset: int, axis: int) -> None:
    compare("DFT", [COMPLEX, scalar(5)], {"axis": axis}, opset, tolerance=1e-4)
    compare("DFT", [COMPLEX], {"axis": axis, "inverse": 1}, opset, tolerance=1e-4)


def test_default_axis_is_the_first_before_opset_20_and_the_last_since() -> None:
    z = COMPLEX[..., 0] + 1j * COMPLEX[..., 1]
    for opset, axis in ((17, 1), (20, 2)):
        (y,) = imported("DFT", [COMPLEX], {}, opset)
        np.testing.assert_allclose(y, parts(sums(z, z.shape[axis], axis)), atol=1e-5)


@pytest.mark.parametrize(
    "operands, attributes",
    [
        ([SIGNAL, scalar(2), WINDOW], {}),
        ([SIGNAL, scalar(3), None, scalar(4)], {}),
        ([SIGNAL, scalar(1), WINDOW, scalar(6)], {"onesided": 0}),
        ([COMPLEX[:, :, 0], scalar(2), WINDOW], {"onesided": 0}),
    ],
)
def test_stft_is_what_onnx_runtime_computes(operands: list[Any], attributes: dict[str, int]) -> None:
    compare("STFT", operands, attributes, 17, tolerance=1e-4)


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 12), step=st.integers(1, 5), data=st.data())
def test_stft_transforms_frames_under_a_window(size: int, step: int, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, size))
    x, window = RNG.normal(size=(2, size, 1)), RNG.normal(size=length)
    (y,) = imported("STFT", [x, scalar(step), window], {}, 17)
    starts = range(0, size - length + 1, step)
    frames = [sums(x[:, s : s + length, 0] * window, length, 1)[:, : length // 2 + 1] for s in starts]
    np.testing.assert_allclose(y, parts(np.stack(frames, axis=1)), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mel_weights_are_what_onnx_runtime_computes(dtype: Any) -> None:
    for bands, length, rate, upper in ((8, 16, 8192, 4096), (10, 256, 16000, 7600), (3, 32, 100, 40)):
        integers = [np.array(v, np.int32) for v in (bands, length, rate)]
        edges = [np.array(v, np.float32) for v in (0, upper)]
        compare(
            "MelWeightMatrix", [*integers, *edges], {"output_datatype": 1 if dtype == np.float32 else 11}, 17
        )


def test_a_band_peaks_at_one() -> None:
    operands = [scalar(20), scalar(512), scalar(16000), np.float32(100), np.float32(8000)]
    (weights,) = imported("MelWeightMatrix", [np.asarray(o) for o in operands], {}, 17)
    assert weights.shape == (257, 20)
    assert weights.max(axis=0).tolist() == [1] * 20
    assert (np.diff(weights.argmax(axis=0)) > 0).all()


def test_mel_weights_of_operands_that_are_computed() -> None:
    b, operands = new_main_graph(
        Module(),
        [*((name, tensor(I64)) for name in "abc"), *((name, tensor(F32)) for name in "de")],
    )
    bins, bands = b(MelWeightMatrix(), *operands).type.dims
    assert bins != bands


def test_shapes_of_results_follow_symbolic_sizes() -> None:
    n, t = symbol("N"), symbol("T")
    b, (x, window) = new_main_graph(Module(), [("x", tensor(F32, n, t, 1)), ("window", tensor(F32, 400))])
    assert b(DFT(), x).type == tensor(F32, n, t, 2)
    assert b(DFT(onesided=True), x).type == tensor(F32, n, floordiv(t, 2) + 1, 2)
    assert b(DFT(length=n), x).type == tensor(F32, n, n, 2)
    assert b(STFT(onesided=True, step=160), x, window).type == tensor(
        F32, n, floordiv(t - 400, 160) + 1, 201, 2
    )


def test_stft_is_transforms_of_frames() -> None:
    t, module = symbol("T"), Module()
    b, (x, window) = new_main_graph(module, [("x", tensor(F32, 2, t, 1)), ("window", tensor(F32, 6))])
    made = STFT(onesided=True, step=2).decompose(b, x, window)
    assert made is not None and made.type == tensor(F32, 2, floordiv(t - 6, 2) + 1, 4, 2)
    assert any(isinstance(node.op, DFT) for node in b.graph)
    b.graph.set_outputs([made])
    (y,) = run_graph(module, b.graph, {x: SIGNAL, window: WINDOW}, {"T": 9})
    frames = [np.fft.rfft(SIGNAL[:, s : s + 6, 0] * WINDOW) for s in (0, 2)]
    np.testing.assert_allclose(y, parts(np.stack(frames, axis=1)), atol=1e-5)


def decomposed(op: DFT, x: Any) -> Any:
    """The result of ``op``, decomposed repeatedly until no op has a decomposition."""
    module = Module()
    b, (value,) = new_main_graph(module, [("x", type_of(x))])
    made = op.decompose(b, value)
    while made is not None and any(isinstance(node.op, DFT) for node in b.graph):
        for node in [node for node in b.graph if isinstance(node.op, DFT)]:
            inner = node.op.decompose(Builder(module, b.graph, node), *node.inputs)
            assert inner is not None
            b.graph.replace_all_uses(node.output, inner)
            b.graph.erase(node)
    if made is None:
        return None
    b.graph.set_outputs([made])
    (y,) = run_graph(module, b.graph, {value: x}, {})
    return y


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("length, size, count", [(64, 64, 1), (96, 60, 2), (210, 300, 2)])
def test_long_transforms_are_made_of_shorter_ones(
    monkeypatch: pytest.MonkeyPatch, length: int, size: int, count: int, inverse: bool
) -> None:
    monkeypatch.setattr(dft, "FAST_MATRIX", 2**12)
    x = RNG.normal(size=(2, size, 3, count))
    z = x[..., 0] if count == 1 else x[..., 0] + 1j * x[..., 1]
    y = decomposed(DFT(1, inverse, length=length), x)
    np.testing.assert_allclose(y, parts(sums(z, length, 1, inverse)), atol=1e-11)


def test_long_onesided_transforms_are_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dft, "FAST_MATRIX", 2**12)
    x = RNG.normal(size=(2, 180, 1))
    y = decomposed(DFT(onesided=True), x)
    np.testing.assert_allclose(y, parts(np.fft.rfft(x[..., 0])), atol=1e-11)


@pytest.mark.parametrize("length, native", [(1024, True), (1 << 16, True), (4099, False), (1 << 24, False)])
def test_transforms_that_need_large_matrices_are_not_decomposed(length: int, native: bool) -> None:
    b, (x,) = new_main_graph(Module(), [("x", tensor(F32, symbol("N"), length, 2))])
    made = DFT().decompose(b, x)
    assert (made is not None) is native
    if made is not None:
        assert made.type == x.type
        assert any(isinstance(node.op, MatMul) for node in b.graph)
