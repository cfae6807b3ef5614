"""Operators that ONNX defines by functions, such as Attention: engines have kernels for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from graphwright.autofusion.autofuse import Request, autofuse
from graphwright.export.onnx import save_model
from tests.autofusion.sessions import with_library
from tests.export.peers import session

WIDTH, HEADS, LONGEST = 32, 4, 16
COMPOSITE = {"RMSNormalization", "RotaryEmbedding", "Attention"}


def _decoder_layer() -> onnx.ModelProto:
    """Attention with rotary embeddings and a cache, between two normalizations."""
    depth = WIDTH // HEADS
    cache, joined = (f"float[b, {HEADS}, {length}, {depth}]" for length in ("past", "total"))
    model = parser.parse_model(f"""
        <ir_version: 11, opset_import: ["" : 23]>
        g (float[b, s, {WIDTH}] x, int64[b, s] positions, {cache} past_k, {cache} past_v)
            => (float[b, s, {WIDTH}] y, {joined} k_all, {joined} v_all) {{
            normal = RMSNormalization <epsilon = 0.001> (x, gain)
            q = MatMul (normal, wq)
            k = MatMul (normal, wk)
            v = MatMul (normal, wv)
            q_turned = RotaryEmbedding <num_heads = {HEADS}> (q, cos, sin, positions)
            k_turned = RotaryEmbedding <num_heads = {HEADS}> (k, cos, sin, positions)
            a, k_all, v_all = Attention <is_causal = 1, q_num_heads = {HEADS}, kv_num_heads = {HEADS}>
                (q_turned, k_turned, v, , past_k, past_v)
            sum = Add (a, x)
            y = RMSNormalization <axis = 2> (sum, gain)
        }}""")
    rng = np.random.default_rng(3)
    weights = {name: (WIDTH, WIDTH) for name in ("wq", "wk", "wv")} | {"gain": (WIDTH,)}
    for name, shape in (weights | dict.fromkeys(("cos", "sin"), (LONGEST, depth // 2))).items():
        array = rng.uniform(-0.5, 0.5, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _feed(past: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(past)
    cache = (2, HEADS, past, WIDTH // HEADS)
    return {
        "x": rng.standard_normal((2, 3, WIDTH), np.float32),
        "positions": np.tile(np.arange(past, past + 3), (2, 1)),
        "past_k": rng.standard_normal(cache, np.float32),
        "past_v": rng.standard_normal(cache, np.float32),
    }


@pytest.mark.parametrize("past", [0, 1, 7])
def test_composite_operators_stay_in_the_model_and_run_in_the_library(past: int, tmp_path: Path) -> None:
    source = _decoder_layer()
    fused = autofuse(source, Request(library=True))
    proto = fused.model.with_weights()
    names = {node.op_type for function in proto.functions for node in function.node}
    assert names >= COMPOSITE, names
    assert names.isdisjoint({"Pow", "ReduceMean", "Softmax", "Split"})
    assert fused.operator_library is not None
    assert fused.operator_library.whole
    target, library = tmp_path / "m.onnx", tmp_path / "m.so"
    save_model(fused.model, target)
    with library.open("wb") as file:
        fused.operator_library.write(file)
    expected = session(source).run(None, _feed(past))
    for found in (
        session(proto).run(None, _feed(past)),
        with_library(target, library).run(None, _feed(past)),
    ):
        for array, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-5)


def test_a_sum_and_its_normalization_are_one_function() -> None:
    proto = autofuse(_decoder_layer()).model.proto
    assert "add_rmsnorm_1" in {function.name for function in proto.functions}
    assert {each.domain: each.version for each in proto.opset_import}[""] == 23


@pytest.mark.parametrize("dtype", ["float", "double", "float16", "bfloat16"])
def test_attention_of_each_type_stays_as_it_is(dtype: str) -> None:
    kind = f"{dtype}[1, 2, s, 8]"
    model = parser.parse_model(f"""
        <ir_version: 11, opset_import: ["" : 24]>
        g ({kind} q, {kind} k, {kind} v) => ({kind} y) {{ y = Attention <softcap = 2.0> (q, k, v) }}""")
    (node,) = autofuse(model).model.proto.graph.node
    assert node.op_type == "Attention"
    assert [(each.name, each.f) for each in node.attribute] == [("softcap", 2.0)]
