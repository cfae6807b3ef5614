"""Interpolation matrices of Resize, and its results in ONNX Runtime, as expected values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnx import TensorProto, helper

from graphwright.kernels.resize.resize import Coordinates, Rounding
from tests.kernels.library.cases import AnyArray

F32 = npt.NDArray[np.float32]


def coordinates(kind: Coordinates, n: int, out: int, scale: Any, dtype: type) -> AnyArray:
    o, scale = np.arange(out, dtype=dtype), dtype(scale)
    if out == 0:
        return o
    half = (o + dtype(0.5)) / scale - dtype(0.5)
    if kind is Coordinates.ALIGN_CORNERS:
        return o * dtype(n - 1) / dtype(out - 1) if out > 1 else o
    if kind is Coordinates.HALF_PIXEL_SYMMETRIC:
        return n / 2 * (1 - out / (scale * n)) + half
    if kind is Coordinates.PYTORCH_HALF_PIXEL and out == 1:
        return o * 0
    return o / scale if kind is Coordinates.ASYMMETRIC else half


def matrix(mode: str, n: int, out: int, scale: float, options: dict[str, Any]) -> AnyArray:
    """The operator of one axis, [out, n]."""
    x = coordinates(options["coordinates"], n, out, scale, np.float32 if mode == "nearest" else np.float64)
    result = np.zeros((out, n))
    rows = np.arange(out)
    if mode == "nearest":
        x = x.astype(np.float64)
        picks = {
            Rounding.ROUND_PREFER_FLOOR: np.ceil(x - 0.5),
            Rounding.ROUND_PREFER_CEIL: np.floor(x + 0.5),
            Rounding.FLOOR: np.floor(x),
            Rounding.CEIL: np.ceil(x),
        }
        result[rows, np.clip(picks[options["rounding"]], 0, n - 1).astype(int)] = 1
        return result
    if mode == "linear":
        x = np.clip(x, 0, n - 1)
        low = np.floor(x).astype(int)
        np.add.at(result, (rows, low), 1 - (x - low))
        np.add.at(result, (rows, np.minimum(low + 1, n - 1)), x - low)
        return result
    a = options["cubic_a"]
    for tap in range(-1, 3):
        at = np.floor(x).astype(int) + tap
        d = np.abs(x - at)
        w = np.where(d <= 1, (a + 2) * d**3 - (a + 3) * d**2 + 1, a * (d**3 - 5 * d**2 + 8 * d - 4))
        w = np.where((at < 0) | (at >= n), 0, w) if options["exclude_outside"] else w
        np.add.at(result, (rows, np.clip(at, 0, n - 1)), w)
    return result / result.sum(1, keepdims=True) if options["exclude_outside"] else result


NAMES = {kind: kind.name.lower() for kind in Coordinates}


def onnx_resize(
    x: F32, out: tuple[int, int], scales: tuple[float, float] | None, mode: str, **attributes: Any
) -> F32:
    """The result of ONNX Runtime."""
    inputs: dict[str, AnyArray] = {"x": x[None]}
    if scales is None:
        inputs["sizes"] = np.array([1, len(x), *out])
        names = ["x", "", "", "sizes"]
    else:
        inputs["scales"] = np.array([1, 1, *scales], np.float32)
        names = ["x", "", "scales"]
    node = helper.make_node("Resize", names, ["y"], mode=mode, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in inputs.items()
    ]
    graph = helper.make_graph(
        [node], "resize", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, inputs)
    return np.asarray(y[0], np.float32)
