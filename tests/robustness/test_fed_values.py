"""Fed sizes, bounds, axes and counts that no result has: refused by node and value, or what ONNX says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.slice import Slice

EDGES = (-(2**63), -(2**63) + 1, -(2**31), -5, -3, -1, 0, 1, 2, 5, 2**31 - 1, 2**62, 2**63 - 1)
"""Beyond each end, at it, and before it."""
HUGE = [v for v in EDGES if abs(v) >= 2**31 - 1]
LONG = [v for v in HUGE if abs(v) > 2**40]


def fed_model(
    op: str, *fed: Sequence[int | str], x: Sequence[int | str] = ("N", 3), outputs: int = 1, **attributes: Any
) -> bytes:
    """A model with one node on ``x`` and on i64 operands of these shapes, which are all inputs."""
    names = [f"fed{k}" for k in range(len(fed))]
    node = helper.make_node(op, ["x", *names], [f"y{k}" for k in range(outputs)], "the_node", **attributes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    inputs += [
        helper.make_tensor_value_info(n, TensorProto.INT64, s) for n, s in zip(names, fed, strict=True)
    ]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=n) for n in node.output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return bytes(model.SerializeToString())


def feeds(x: np.ndarray[Any, Any], *fed: Any) -> dict[str, Any]:
    return {"x": x, **{f"fed{k}": np.array(v, np.int64) for k, v in enumerate(fed)}}


def peer(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(model, options)


X = np.arange(6, dtype=np.float32).reshape(2, 3)
REFUSED: tuple[tuple[str, bytes, list[tuple[Any, ...]], str], ...] = (
    (
        "Split",
        fed_model("Split", [2], outputs=2, axis=1),
        [([-1, 4],), ([1, 1],), ([5, -2],), ([2**63 - 1, 4],)],
        "a size of|in pieces of|sum of the sizes",
    ),
    (
        "Split",
        fed_model("Split", [2], x=("N", "M"), outputs=2, axis=1),
        [([-1, 4],), ([1, 1],), ([0, 2**62],)],
        "a size of|in pieces of|sum of the sizes",
    ),
    (
        "Pad",
        fed_model("Pad", [4]),
        [*(([v, 0, 0, 0],) for v in HUGE), ([-1, -4, -1, 0],)],
        "padding|padded|exceeds the",
    ),
    (
        "Tile",
        fed_model("Tile", [2]),
        [*(([v, 1],) for v in (*HUGE, -1)), ([0, 2**62],)],
        "negative size|exceeds the",
    ),
    (
        "Expand",
        fed_model("Expand", [2], x=("N", 1)),
        [*(([1, v],) for v in (*LONG, -1)), ([3, 1],)],
        "negative size|exceeds the|differ",
    ),
    ("TopK", fed_model("TopK", [1], outputs=2), [([v],) for v in (*HUGE, -1, 4)], "top"),
    ("Gather", fed_model("Gather", ["K"]), [([v],) for v in (*HUGE, -3, 2)], "out of range"),
    (
        "Reshape",
        fed_model("Reshape", [2]),
        [*(([v, 1],) for v in (*HUGE, -2, 7)), ([-1, -1],), ([-1, 4],)],
        "Reshape",
    ),
    (
        "Slice",
        fed_model("Slice", [1], [1], [1], [1]),
        [([0], [1], [2], [1]), ([0], [1], [0], [0])],
        "axis 2 is out of range|step along axis 0 is 0",
    ),
    ("CumSum", fed_model("CumSum", []), [(v,) for v in (*HUGE, 2)], "is out of range for rank"),
    ("Unsqueeze", fed_model("Unsqueeze", [1]), [([v],) for v in (*HUGE, 3)], "is out of range for rank"),
)


@pytest.mark.parametrize(
    "op, model, cases, message", REFUSED, ids=[f"{r[0]}{k}" for k, r in enumerate(REFUSED)]
)
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_fed_values_that_give_an_impossible_shape_are_rejected(
    op: str, model: bytes, cases: list[tuple[Any, ...]], message: str, device: str
) -> None:
    compiled = gw.compile(model, options=Options(device=device))
    x = X[:, :1] if op == "Expand" else X
    for fed in cases:
        with pytest.raises(gw.GraphwrightError, match=message if device == "cpu" else None) as caught:
            compiled.run(feeds(x, *fed))
        assert "the_node" in str(caught.value) or op in str(caught.value)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_bounds_of_slices_beyond_the_ends(device: str) -> None:
    """ONNX clamps a start to the elements, and a negative step begins at an element; NumPy does not."""
    model = fed_model("Slice", [1], [1], [1], [1], x=("N",))
    session, compiled = peer(model), gw.compile(model, options=Options(device=device))
    for start, end, step, size in product(EDGES[::2], EDGES[1::2], (1, 2, -1, -3, 2**63 - 1), (0, 1, 2, 5)):
        if step < 0 and end == 2**63 - 1:
            continue  # ONNX Runtime takes it for what stands before the first element
        fed = feeds(np.arange(size, dtype=np.float32), [start], [end], [0], [step])
        np.testing.assert_array_equal(
            compiled.run(fed)["y0"], session.run(None, fed)[0], f"[{start}:{end}:{step}] of {size}"
        )


@pytest.mark.parametrize(
    "start, end, step", [(-3, -9, -1), (-(2**63), -9, -2), (1, -3, -1), (-2, 2, 1), (9, 0, -2)]
)
def test_slices_with_constant_bounds_along_dynamic_axes(start: int, end: int, step: int) -> None:
    builder = gw.GraphBuilder()
    x = builder.input("x", "f32", ("N",))
    builder.output("y", builder(Slice((start,), (end,), (0,), (step,)), x))
    compiled = builder.compile()
    session = peer(fed_model("Slice", [1], [1], [1], [1], x=("N",)))
    for size in (0, 1, 2, 3, 4, 9):
        array = np.arange(size, dtype=np.float32)
        want = session.run(None, feeds(array, [start], [end], [0], [step]))[0]
        np.testing.assert_array_equal(compiled(array)[0], want)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_pads_that_crop_what_the_other_end_adds(device: str) -> None:
    model = fed_model("Pad", [2], x=("N",))
    session, compiled = peer(model), gw.compile(model, options=Options(device=device))
    for begin, end, size in product((-3, -1, 0, 2, 3), (-3, -2, 0, 1, 3), (0, 1, 2, 5)):
        fed = feeds(np.arange(1, size + 1, dtype=np.float32), [begin, end])
        if size + begin + end < 0:
            with pytest.raises(gw.GraphwrightError, match=r"after padding|padded"):
                compiled.run(fed)
        else:
            np.testing.assert_array_equal(
                compiled.run(fed)["y0"], session.run(None, fed)[0], f"{begin}, {end} of {size}"
            )


def test_no_result_is_larger_than_memory() -> None:
    """Nothing of that size is even started."""
    builder = gw.GraphBuilder()
    builder.output("y", builder(ConstantOfShape(1.0), builder.input("shape", "i64", (2,))))
    compiled = builder.compile()
    for shape in product((0, 1, 2**40, 2**62, 2**63 - 1), (2**40, 2**62, 2**63 - 1)):
        if shape[0] and np.prod(np.array(shape, object)) < 2**41:
            continue
        try:
            (made,) = compiled(np.array(shape))
        except gw.GraphwrightError:
            continue
        assert made.shape == shape and made.size == 0
