"""Nodes whose translation depends on ranks that the model leaves open, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import graphwright as gw
from graphwright.errors import FeedError

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def model_of(
    op: str, arrays: Sequence[Array | None], given: dict[str, Any], outputs: Sequence[str], opset: int
) -> onnx.ModelProto:
    """A model with one node, whose inputs have dtypes but no shapes."""
    node = helper.make_node(
        op, ["" if a is None else f"x{k}" for k, a in enumerate(arrays)], outputs, **given
    )
    infos = [
        helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(a.dtype), None)
        for k, a in enumerate(arrays)
        if a is not None
    ]
    graph = helper.make_graph(
        [node], "g", infos, [onnx.ValueInfoProto(name=name) for name in outputs if name]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


_X, _POSITIONS = normal(2, 3, 4, 8), RNG.integers(0, 5, (2, 4))
_Q, _K, _V = normal(2, 3, 4, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 5)
_FLAT = (normal(2, 4, 24), normal(2, 6, 24), normal(2, 6, 15))
_HEADS = {"q_num_heads": 3, "kv_num_heads": 3}
CASES: dict[str, tuple[str, Sequence[Array | None], dict[str, Any], Sequence[str], int]] = {
    "rotary of heads": ("RotaryEmbedding", (_X, normal(5, 4), normal(5, 4), _POSITIONS), {}, "y", 23),
    "rotary of rows": (
        "RotaryEmbedding",
        (normal(2, 4, 24), normal(2, 4, 4), normal(2, 4, 4)),
        {"num_heads": 3, "interleaved": 1},
        "y",
        23,
    ),
    "rotary of some features": (
        "RotaryEmbedding",
        (_X, normal(5, 2), normal(5, 2), _POSITIONS),
        {"rotary_embedding_dim": 4},
        "y",
        23,
    ),
    "attention": ("Attention", (_Q, _K, _V), {"is_causal": 1, "softcap": 2.0}, "y", 23),
    "attention of rows": ("Attention", _FLAT, _HEADS, "y", 23),
    "attention with a mask": ("Attention", (_Q, _K, _V, RNG.random((4, 6)) < 0.7), {}, "y", 23),
    "attention with a past": (
        "Attention",
        (_Q, _K, _V, None, normal(2, 3, 2, 8), normal(2, 3, 2, 5)),
        {"is_causal": 1},
        "ypq",
        23,
    ),
    "batch normalization that trains": (
        "BatchNormalization",
        (normal(2, 3, 4), normal(3), normal(3), normal(3), np.abs(normal(3))),
        {"training_mode": 1},
        "ymv",
        15,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_ranks_come_with_the_feed(name: str, tmp_path: Path) -> None:
    """Ranks also come with the first feed of an untrusted package, whose graph is compiled again."""
    op, arrays, given, outputs, opset = CASES[name]
    source = model_of(op, arrays, given, outputs, opset)
    feeds = {f"x{k}": a for k, a in enumerate(arrays) if a is not None}
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    model = gw.compile(source)
    path = tmp_path / "m.om"
    model.save(path)
    for each in (model, gw.load(path)):
        for actual, wanted in zip(each.run(feeds).values(), expected, strict=True):
            assert actual.dtype == wanted.dtype
            np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=2e-5)


def test_the_axes_of_the_first_opsets() -> None:
    """``axis`` says at which axis the second operand is aligned, which requires ranks."""
    a, b = normal(2, 3, 4), normal(3)
    model = gw.compile(model_of("Add", (a, b), {"broadcast": 1, "axis": 1}, "y", 6))
    np.testing.assert_array_equal(model.run({"x0": a, "x1": b})["y"], a + b[:, None])


def test_ranks_that_do_not_fit_are_rejected() -> None:
    source = model_of("Attention", (_Q, _K, _V), {}, "y", 23)
    source.graph.node[0].name = "encoder.attention"
    model = gw.compile(source)
    fault = "Attention: Q, K and V must all have 3 axes, or all have 4 axes"
    with pytest.raises(
        FeedError, match=rf"^encoder\.attention: the input shapes do not fit the model: {fault}"
    ):
        model.run({"x0": normal(4), "x1": normal(4), "x2": normal(4)})
    with pytest.raises(gw.ModelError, match=rf"^encoder\.attention: {fault}"):
        gw.compile(source, shapes={"x0": (4,), "x1": (4,), "x2": (4,)})
