"""Compiled attention is one launch for any sequence lengths, and agrees with its definition in f64."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.low_ir.tasks import TaskGraph, TaskKind
from graphwright.ops.nn.attention import ScaledDotProductAttention

Array = np.ndarray[Any, Any]
HEADS, FEATURES = 4, 8


def definition(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """Attention on operands [B, S, H, D], by its definition."""
    scores = np.einsum("bqhd,bkhd->bhqk", q.astype(np.float64), k) / np.sqrt(q.shape[-1]) + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", powers / powers.sum(-1, keepdims=True), v)


def exported() -> Any:
    """Products around a Softmax between transposes of heads, with sizes that are not known."""
    split = helper.make_tensor("split", TensorProto.INT64, [4], [0, 0, HEADS, FEATURES])
    merge = helper.make_tensor("merge", TensorProto.INT64, [3], [0, 0, HEADS * FEATURES])
    root = helper.make_tensor("root", TensorProto.FLOAT, [], [FEATURES**0.5])
    nodes = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(helper.make_node("Reshape", [name, "split"], [f"{name}4"]))
        nodes.append(helper.make_node("Transpose", [f"{name}4"], [f"{name}t"], perm=perm))
    nodes += [
        helper.make_node("MatMul", ["qt", "kt"], ["scores"]),
        helper.make_node("Div", ["scores", "root"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "vt"], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["rows"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["rows", "merge"], ["y"]),
    ]
    return _model(nodes, [split, merge, root])


def named() -> Any:
    node = helper.make_node(
        "Attention", ["q", "k", "v", "mask"], ["y"], q_num_heads=HEADS, kv_num_heads=HEADS
    )
    return _model([node], [])


def _model(nodes: list[Any], constants: list[Any], wide: int | str = HEADS * FEATURES) -> Any:
    shapes = {"q": ["B", "S", wide], "k": ["B", "T", wide], "v": ["B", "T", wide], "mask": ["B", 1, 1, "T"]}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", "S", wide])
    graph = helper.make_graph(nodes, "attention", inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])


@pytest.mark.parametrize("build", [exported, named])
def test_one_launch_for_any_lengths(build: Any) -> None:
    programs: list[TaskGraph] = []

    def observe(name: str, product: Any) -> None:
        if name == "lower":
            programs.append(product.tasks)

    model = gw.compile(build(), options=Options(threads=1), observe=observe)
    (program,) = programs
    launched = [program.kernels[task.kernel].symbol for task in program.tasks if task.kind is TaskKind.LAUNCH]
    assert launched == ["gw_attention_f32"]
    assert len(program.tasks) == 1
    rng = np.random.default_rng(0)
    for batch, queries, keys in ((1, 1, 1), (2, 17, 5), (1, 3, 700), (3, 60, 60)):
        shapes = ((batch, queries), (batch, keys), (batch, keys))
        q, k, v = (rng.standard_normal((*s, HEADS * FEATURES)).astype(np.float32) for s in shapes)
        mask = np.where(rng.random((batch, 1, 1, keys)) < 0.2, -1e9, 0).astype(np.float32)
        (y,) = model(q, k, v, mask)
        wide = definition(*(x.reshape(*x.shape[:2], HEADS, FEATURES) for x in (q, k, v)), mask)
        np.testing.assert_allclose(y, wide.reshape(y.shape), rtol=1e-5, atol=1e-6)


def test_the_number_of_features_may_be_open() -> None:
    node = helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"], q_num_heads=2, kv_num_heads=2)
    model = gw.compile(_model([node], [], "W"), options=Options(threads=1))
    rng = np.random.default_rng(1)
    for features in (1, 3, 16):
        q, k, v = (rng.standard_normal((1, s, 2 * features)).astype(np.float32) for s in (3, 5, 5))
        mask = np.zeros((1, 1, 1, 5), np.float32)
        (y,) = model(q, k, v, mask)
        wide = definition(*(x.reshape(1, -1, 2, features) for x in (q, k, v)), mask)
        np.testing.assert_allclose(y, wide.reshape(y.shape), rtol=1e-5, atol=1e-6)


def test_the_reference_gives_no_warning_for_a_row_without_keys() -> None:
    q, mask = np.ones((1, 1, 2, 4), np.float32), np.zeros((2, 2), np.float32)
    mask[1] = -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ScaledDotProductAttention().reference(q, q, q, mask)
    np.testing.assert_array_equal(np.isnan(result[0, 0]).all(-1), [False, True])


def _open_model(dims: dict[str, list[str]], outputs: list[str], **attributes: Any) -> gw.Model:
    """Attention of inputs in the order of the operator, with these dynamic sizes."""
    operands = ["q", "k", "v", "mask", "", "", "lengths"][: 7 if "lengths" in dims else 4]
    node = helper.make_node("Attention", operands, outputs, **attributes)
    types = {name: TensorProto.INT64 if name == "lengths" else TensorProto.FLOAT for name in dims}
    inputs = [helper.make_tensor_value_info(name, types[name], shape) for name, shape in dims.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name]
    graph = helper.make_graph([node], "attention", inputs, results)
    return gw.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)]).SerializeToString(),
        options=Options(threads=1),
    )


_OPEN = {"q": ["B", "H", "S", "D"], "k": ["B", "G", "T", "D"], "v": ["B", "G", "T", "E"]}


@pytest.mark.parametrize("mode", range(4))
def test_scores_as_output_for_any_numbers_of_heads(mode: int) -> None:
    """Heads that share keys are known to share them only at run time."""
    model = _open_model(
        {**_OPEN, "mask": ["S", "T"]}, ["y", "", "", "scores"], qk_matmul_output_mode=mode, softcap=2.0
    )
    rng = np.random.default_rng(2)
    for heads, groups in ((4, 2), (3, 3), (6, 1), (2, 2)):
        q, k, v = (rng.standard_normal((2, n, 5, 8)).astype(np.float32) for n in (heads, groups, groups))
        mask = rng.standard_normal((5, 5)).astype(np.float32)
        k_of_all, v_of_all = (np.repeat(x, heads // groups, 1).astype(np.float64) for x in (k, v))
        scores = q @ k_of_all.swapaxes(2, 3) / np.sqrt(8)
        capped = 2 * np.tanh(scores / 2)
        powers = np.exp(capped + mask)
        shares = powers / powers.sum(-1, keepdims=True)
        y, found = model(q, k, v, mask)
        np.testing.assert_allclose(y, shares @ v_of_all, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found, (scores, capped, capped + mask, shares)[mode], rtol=1e-5, atol=1e-6)


def test_a_mask_of_any_length_with_the_lengths_of_a_cache() -> None:
    """A mask covers the tokens in the cache, and a mask of one column all of it."""
    model = _open_model({**_OPEN, "mask": ["S", "M"], "lengths": ["B"]}, ["y"])
    rng = np.random.default_rng(3)
    for columns in (7, 4, 1):
        q, k, v = (rng.standard_normal((2, 2, n, 8)).astype(np.float32) for n in (3, 7, 7))
        mask, lengths = rng.standard_normal((3, columns)).astype(np.float32), np.array([2, 4])
        hidden = np.where(np.arange(7) < lengths.reshape(2, 1, 1, 1), 0, -np.inf)
        columns_of_all = mask if columns == 1 else np.pad(mask, ((0, 0), (0, 7 - columns)))
        want = definition(*(x.swapaxes(1, 2) for x in (q, k, v)), columns_of_all + hidden)
        np.testing.assert_allclose(
            model(q, k, v, mask, lengths)[0], want.swapaxes(1, 2), rtol=1e-5, atol=1e-6
        )
