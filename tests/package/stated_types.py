"""Models whose packages state the types of values."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.onnx_models import onnx_model

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


BIAS = np.array([1, 2, 3, 4], np.float32)


def affine() -> bytes:
    """``y = x @ w @ v + b`` with weights of 0: every row of ``y`` is ``b``."""
    node = helper.make_node
    return onnx_model(
        [
            node("MatMul", ["x", "w"], ["a"]),
            node("MatMul", ["a", "v"], ["m"]),
            node("Add", ["m", "b"], ["y"]),
        ],
        {"x": (FLOAT, ["N", 4])},
        {"y": (FLOAT, None)},
        {"w": np.zeros((4, 8), np.float32), "v": np.zeros((8, 4), np.float32), "b": BIAS},
    )


def branching() -> bytes:
    """The rows of ``y`` gathered in a loop, the indices of its nonzero elements, and one of two branches."""
    node, info = helper.make_node, helper.make_tensor_value_info
    rows = helper.make_graph(
        [
            node("Concat", ["c", "r"], ["c2"], axis=0),
            node("ReduceSum", ["c2"], ["s"], keepdims=0),
            node("Identity", ["on"], ["on2"]),
        ],
        "rows",
        [info("i", INT64, []), info("on", BOOL, []), info("c", FLOAT, ["k", 4])],
        [info("on2", BOOL, []), info("c2", FLOAT, None), info("s", FLOAT, None)],
    )
    then, other = (
        helper.make_graph([node(op, ["m"], [op])], op, [], [info(op, FLOAT, None)]) for op in ("Relu", "Exp")
    )
    return onnx_model(
        [
            node("MatMul", ["x", "w"], ["m"]),
            node("Add", ["m", "b"], ["y"]),
            node("NonZero", ["y"], ["z0"]),
            node("Transpose", ["z0"], ["z"]),
            node("Slice", ["y", "zero", "one"], ["r"]),
            node("Loop", ["n", "", "r"], ["last", "sums"], body=rows),
            node("If", ["p"], ["q"], then_branch=then, else_branch=other),
        ],
        {"x": (FLOAT, ["N", 4]), "n": (INT64, []), "p": (BOOL, [])},
        {name: (kind, None) for name, kind in zip("yzq", (FLOAT, INT64, FLOAT), strict=True)}
        | {"last": (FLOAT, None), "sums": (FLOAT, None)},
        {"w": np.zeros((4, 4), np.float32), "b": BIAS, "zero": np.array([0]), "one": np.array([1])},
    )
