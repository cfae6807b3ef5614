"""Finding the first task that produces NaN or infinity; expected values are computed with NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx_models import model_proto
from tests.tools.support import graphwright

Array = np.ndarray[Any, Any]


def save(
    nodes: Sequence[tuple[str, str, str]], shape: Sequence[int], weights: Mapping[str, Array] | None = None
) -> None:
    """A model of ``(op, inputs, output)``, which gives the last output; nodes are called as their outputs."""
    made = [helper.make_node(op, reads.split(), [out], name=f"{out}_node") for op, reads, out in nodes]
    onnx.save(model_proto(made, {"x": list(shape)}, {nodes[-1][2]: None}, weights), "m.onnx")


def run_nan(x: Array) -> Any:
    np.save("x.npy", x)
    return graphwright("debug", "nan", "m.onnx", "-i", "x=x.npy")


W = np.eye(8, dtype=np.float32)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_the_node_and_the_count_are_named(count: int) -> None:
    save(
        [("MatMul", "x w", "a"), ("Log", "a", "b"), ("MatMul", "b w", "c"), ("Tanh", "c", "y")],
        (1, 8),
        {"w": W},
    )
    x = np.ones((1, 8), np.float32)
    x[0, :count] = -1
    result = run_nan(x)
    assert result.exit_code == 1
    assert f"is the first whose results contain NaN: {count} of 8 elements" in result.stdout
    assert "b_node is the first of these with NaN" in result.stdout
    assert "the model itself computes it" in result.stdout


def test_a_node_inside_a_fused_kernel_is_named() -> None:
    save([("Abs", "x", "a"), ("Neg", "a", "b"), ("Sqrt", "b", "c"), ("Add", "c x", "y")], (4, 5))
    result = run_nan(np.full((4, 5), 2, np.float32))
    assert result.exit_code == 1 and "c_node is the first of these with NaN" in result.stdout
    assert "20 of 20 elements" in result.stdout


def test_infinity_is_found_and_compared_with_fp64() -> None:
    save([("MatMul", "x w", "a"), ("Exp", "a", "b"), ("MatMul", "b w", "y")], (1, 8), {"w": W})
    result = run_nan(np.full((1, 8), 100, np.float32))
    assert np.exp(100.0) > np.finfo(np.float32).max
    assert result.exit_code == 1
    assert "is the first whose results contain infinity: 8 of 8 elements" in result.stdout
    assert "give finite results in f64" in result.stdout


def test_infinities_of_a_mask_are_not_faults() -> None:
    mask = np.where(np.tri(8), 0, -np.inf).astype(np.float32)
    save([("MatMul", "x w", "a"), ("Add", "a m", "b"), ("Softmax", "b", "y")], (8, 8), {"w": W, "m": mask})
    result = run_nan(np.ones((8, 8), np.float32))
    assert result.exit_code == 0, result.stdout


def test_nan_that_is_fed_is_noted_and_no_task_is_blamed() -> None:
    save([("MatMul", "x w", "a"), ("Tanh", "a", "y")], (1, 8), {"w": W})
    result = run_nan(np.full((1, 8), np.nan, np.float32))
    assert result.exit_code == 0 and "input 'x' has NaN" in result.stderr


def test_a_task_of_a_later_program_is_named() -> None:
    nodes = [("NonZero", "x", "places"), ("Cast", "places", "f"), ("Log", "f", "g"), ("Sub", "g g", "y")]
    save(nodes, (3, 4))
    model = onnx.load("m.onnx")
    model.graph.node[1].attribute.append(helper.make_attribute("to", TensorProto.FLOAT))
    onnx.save(model, "m.onnx")
    result = run_nan(np.ones((3, 4), np.float32))
    rows, columns = np.nonzero(np.ones((3, 4)))
    zeros = int((rows == 0).sum() + (columns == 0).sum())
    assert result.exit_code == 1 and f"{zeros} of 24 elements" in result.stdout, result.output
    assert "g_node is the first of these with infinity" in result.stdout


def test_a_package_is_taken_as_well(tmp_path: Path) -> None:
    save([("MatMul", "x w", "a"), ("Log", "a", "y")], (1, 8), {"w": W})
    assert graphwright("compile", "m.onnx", "-o", "m.om").exit_code == 0
    np.save("x.npy", np.full((1, 8), -1, np.float32))
    result = graphwright("debug", "nan", "m.om", "-i", "x=x.npy")
    assert result.exit_code == 1 and "y_node" in result.stdout
