"""Ops of old opsets, many in a model, against ONNX Runtime; of opset 1, which it lacks, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(17)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def integers(*values: int) -> Array:
    return np.array(values, np.int64)


@dataclass
class Case:
    """A node with its operands; those after the first ``fed`` are initializers. ``expected``: the first
    result, by NumPy, where ONNX Runtime has no such version.
    """

    op: str
    arrays: tuple[Any, ...]
    given: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    fed: int = 1
    expected: Callable[..., Any] | None = None


def model_of(cases: list[Case], opset: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model with all ``cases``, and its inputs."""
    nodes, infos, held, outputs, feeds = [], [], [], [], {}
    for k, case in enumerate(cases):
        names = ["" if a is None else f"x{k}_{p}" for p, a in enumerate(case.arrays)]
        results = [f"y{k}_{p}" for p in range(case.outputs)]
        nodes.append(helper.make_node(case.op, names, results, **case.given))
        outputs += [onnx.ValueInfoProto(name=name) for name in results]
        for p, (name, array) in enumerate(zip(names, case.arrays, strict=True)):
            if array is None:
                continue
            if p >= case.fed:
                held.append(numpy_helper.from_array(np.asarray(array), name))
            kind = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
            if p < case.fed or opset < 4:
                infos.append(helper.make_tensor_value_info(name, kind, np.shape(array)))
            if p < case.fed:
                feeds[name] = array
    graph = helper.make_graph(nodes, "g", infos, outputs, held)
    version = 3 if opset < 9 else 8
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=version), feeds


def close(actual: Any, expected: Any, what: str) -> None:
    a, e = np.asarray(actual), np.asarray(expected)
    assert a.dtype == e.dtype, what
    assert a.shape == e.shape, what
    np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5, err_msg=what)


_X, _P = normal(2, 3, 4), np.abs(normal(2, 3)) + np.float32(0.1)
_IMAGE = normal(1, 2, 5, 6)


def _resized(x: Array) -> Array:
    return x.repeat(2, 2).repeat(3, 3)


FIRST = [
    *(
        Case(op, (_P,), {"consumed_inputs": [0]}, expected=function)
        for op, function in {
            "Abs": np.abs, "Ceil": np.ceil, "Exp": np.exp, "Floor": np.floor, "Log": np.log,
            "Neg": np.negative, "Reciprocal": np.reciprocal, "Sqrt": np.sqrt, "Tanh": np.tanh,
            "Relu": lambda x: np.maximum(x, 0), "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        }.items()
    ),
    Case("Cast", (_X,), {"to": "DOUBLE"}, expected=lambda x: x.astype(np.float64)),
    Case("Cast", (_X,), {"to": "INT64"}, expected=lambda x: x.astype(np.int64)),
    Case("Clip", (_X,), {"min": -0.5}, expected=lambda x: np.maximum(x, -0.5)),
    Case("Concat", (_X, _X), {}, fed=2, expected=lambda x, y: np.concatenate([x, y], 1)),
    Case("Elu", (_X,), {"alpha": 2.0}, expected=lambda x: np.where(x < 0, 2 * np.expm1(x), x)),
    Case("GlobalLpPool", (_IMAGE,), {"p": 1.0}, expected=lambda x: np.abs(x).sum((2, 3), keepdims=True)),
    Case("HardSigmoid", (_X,), {}, expected=lambda x: np.clip(0.2 * x + np.float32(0.5), 0, 1)),
    Case("LeakyRelu", (_X,), {}, expected=lambda x: np.where(x < 0, np.float32(0.01) * x, x)),
    Case("Max", (_X, -_X), fed=2, expected=np.maximum),
    Case("Mean", (_X, _X), fed=2, expected=lambda x, y: (x + y) / 2),
    Case("Min", (_X, -_X), fed=2, expected=np.minimum),
    Case("Pad", (_P,), {"paddings": [1, 0, 0, 2], "value": 3.0},
         expected=lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=3)),
    Case("Pad", (_P,), {"paddings": [0, 1, 0, 1], "mode": "edge"},
         expected=lambda x: np.pad(x, ((0, 0), (1, 1)), mode="edge")),
    Case("Reshape", (_X,), {"shape": [0, -1]}, expected=lambda x: x.reshape(2, 12)),
    Case("Selu", (_X,), {}, expected=lambda x: np.float32(1.0507) * np.where(x > 0, x, 1.6732 * np.expm1(x))),
    Case("Split", (_X,), {"axis": 2, "split": [1, 3]}, 2, expected=lambda x: x[..., :1]),
    Case("Split", (_X, np.array([1, 2], np.float32)), {"axis": 1}, 2, expected=lambda x, _: x[:, :1]),
    Case("Sum", (_X, _X, _X), fed=3, expected=lambda x, y, z: x + y + z),
    Case("Tile", (_P, np.float32(3), np.float32(1)), expected=lambda x, *_: np.tile(x, (1, 3))),
    Case("Upsample", (_IMAGE,), {"height_scale": 2.0, "width_scale": 3.0}, expected=_resized),
    Case("Add", (_X, normal(3)), {"broadcast": 1, "axis": 1}, expected=lambda x, y: x + y[:, None]),
    Case("Dropout", (_X,), {"is_test": 1}, expected=lambda x: x),
    Case("BatchNormalization", (_IMAGE, normal(2), normal(2), normal(2), np.abs(normal(2))),
         {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]},
         expected=lambda x, s, b, m, v: (x - m[:, None, None]) / np.sqrt(v[:, None, None] + 1e-5)
         * s[:, None, None] + b[:, None, None]),
    Case("AveragePool", (np.ones((1, 1, 4, 4), np.float32),), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
         expected=lambda x: x),
    Case("LRN", (_IMAGE,), {"size": 2, "alpha": 1.0},
         expected=lambda x: x / (1 + (x**2 + np.append(x[:, 1:], 0 * x[:, :1], 1) ** 2) / 2) ** 0.75),
]  # fmt: skip
"""Opset 1, which ONNX Runtime does not run."""

_ROWS = normal(2, 3, 4)
_PICK = RNG.integers(0, 3, (3, 4, 5)).astype(np.float32)
SEVENTH = [
    *(Case(op, (_ROWS,), {"axis": axis}) for op in ("Softmax", "LogSoftmax") for axis in (0, 1, 2)),
    Case("Hardmax", (_PICK,), {"axis": 1}),
    *(Case("Flatten", (_ROWS,), {"axis": axis}) for axis in (0, 2, 3)),
    *(
        Case(op, (np.abs(_ROWS),), given)
        for op in ("ReduceSum", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare")
        for given in ({}, {"axes": [0, 2]}, {"axes": [1], "keepdims": 0})
    ),
    *(Case(op, (_PICK,), {"axis": 1, "keepdims": 0}) for op in ("ArgMax", "ArgMin")),
    Case("Clip", (_ROWS,), {"min": -0.5}),
    Case("Pad", (_P,), {"pads": [1, 2, 0, 1], "mode": "reflect"}),
    Case("Pad", (normal(4, 5),), {"pads": [-1, 2, 0, -2], "value": 1.5}),
    Case("Slice", (normal(3, 4),), {"starts": [0, -3], "ends": [-1, 2**31 - 1], "axes": [1, 0]}),
    Case("Slice", (normal(3, 4),), {"starts": [5], "ends": [2], "axes": [1]}),
    Case("Squeeze", (normal(1, 3, 1),), {"axes": [0, 2]}),
    Case("Unsqueeze", (normal(3, 2),), {"axes": [0, 3]}),
    Case("Split", (normal(4, 6),), {"axis": -1, "split": [1, 2, 3]}, 3),
    Case("TopK", (_ROWS,), {"k": 2, "axis": 1}, 2),
    Case("Upsample", (normal(1, 1, 2, 3),), {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "linear"}),
    Case("BatchNormalization", (normal(2, 3, 4), *(np.abs(normal(3, 4)) for _ in range(4))), {"spatial": 0}),
    Case("Gemm", (normal(3, 2), normal(4, 3), normal(2, 1)), {"transA": 1, "transB": 1, "alpha": 0.5}),
    Case("PRelu", (normal(2, 3, 4), normal(3, 1))),
]
"""Opset 7: axes and bounds are attributes, and Softmax works on matrices."""
TENTH = [
    Case("TopK", (np.array([[1, 3, 3, 2], [5, 5, 5, 5]], np.float32), integers(3)), {}, 2),
    Case(
        "Slice", (normal(4, 5), integers(-1, 3), integers(-(2**63), 2**62), integers(1, 0), integers(-2, 1))
    ),
    Case("MaxPool", (_IMAGE,), {"kernel_shape": [2, 2], "dilations": [2, 1], "storage_order": 1}, 2),
    Case("MaxPool", (_IMAGE,), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, 2),
    Case("AveragePool", (_IMAGE,), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Case("Resize", (_IMAGE, np.array([1, 1, 0.5, 0.7], np.float32)), {"mode": "linear"}),
    Case("ThresholdedRelu", (_ROWS,), {"alpha": 0.5}),
    Case("EyeLike", (normal(3, 4),), {"k": -1, "dtype": TensorProto.INT64}),
    Case("EyeLike", (normal(3, 4),), {"k": 7}),
    Case("Mod", (np.array([7, -7, 7, -7], np.int8), np.array([3, 3, -3, -3], np.int8)), {"fmod": 0}),
    Case("Cast", (integers(2**53 + 1, -1, 2**63 - 1, 256),), {"to": TensorProto.UINT8}),
]
"""Opset 10: the first operands in place of attributes."""


@pytest.mark.parametrize(("opset", "cases"), [(7, SEVENTH), (10, TENTH)])
def test_old_opsets_follow_onnxruntime(opset: int, cases: list[Case]) -> None:
    source, feeds = model_of(cases, opset)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(source.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [value.name for value in source.graph.output]
    actual = gw.compile(source).run(feeds)
    for name, expected in zip(names, session.run(names, feeds), strict=True):
        case = cases[int(name[1:].split("_")[0])]
        close(actual[name], expected, f"{case.op}-{opset} {case.given}")


def test_the_first_opset_follows_its_text() -> None:
    source, feeds = model_of(FIRST, 1)
    actual = gw.compile(source).run(feeds)
    for k, case in enumerate(FIRST):
        assert case.expected is not None
        expected = np.asarray(case.expected(*case.arrays))
        wide = expected.astype(np.float32) if case.op != "Cast" and expected.dtype == np.float64 else expected
        close(actual[f"y{k}_0"], wide, f"{case.op}-1 {case.given}")


def test_models_from_before_opsets_use_the_first_one() -> None:
    source, feeds = model_of([Case("Add", (_X, normal(3)), {"broadcast": 1, "axis": 1}, fed=2)], 1)
    del source.opset_import[:]
    for version in (1, 2):
        source.ir_version = version
        (y,) = gw.compile(source).run(feeds).values()
        np.testing.assert_array_equal(y, feeds["x0_0"] + feeds["x0_1"][:, None])
    source.ir_version = 3
    with pytest.raises(gw.ModelError, match="imports no opset"):
        gw.compile(source)


@pytest.mark.parametrize(
    ("opset", "dtype"), [(6, np.float32), (7, np.float32), (10, np.bool_), (12, np.bool_)]
)
def test_masks_of_dropout_have_the_dtype_of_their_opset(opset: int, dtype: Any) -> None:
    given = {"is_test": 1} if opset < 7 else {}
    source, feeds = model_of([Case("Dropout", (_X,), given, 2)], opset)
    y, mask = gw.compile(source).run(feeds).values()
    np.testing.assert_array_equal(y, _X)
    assert mask.dtype == dtype
    assert mask.all()
