"""Attention of ONNX Runtime's domain and its rotary embeddings, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphwright as gw
from graphwright.errors import FeedError

from .contrib import (
    COMPILED,
    DOMAIN,
    GROUPS,
    REFERENCE,
    TOTAL,
    Array,
    by_runtime,
    compare,
    flags,
    grouped,
    normal,
    one_node,
    paired,
    refused,
    rng,
    tables,
)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("first", [True, False])
def test_rotary_embedding_equals_onnx_runtime(interleaved: int, first: bool) -> None:
    positions = np.array([3]) if first else rng.integers(0, 12, (2, 5))
    caches = tables(12, 4)
    compare("RotaryEmbedding", [normal(2, 5, 24), positions, *caches], symbolic=True, interleaved=interleaved)
    compare("RotaryEmbedding", [normal(2, 3, 5, 8), positions, *caches], interleaved=interleaved)
    partial = {"num_heads": 3, "rotary_embedding_dim": 8, "interleaved": interleaved}
    compare("RotaryEmbedding", [normal(2, 5, 36), positions, *caches], **partial)
    compare("RotaryEmbedding", [normal(2, 3, 5, 12), positions, *caches], **partial)


def test_rotary_embeddings_with_tables_of_a_dynamic_size() -> None:
    """The size of a head is that of the tables."""
    feeds = [normal(2, 5, 24), rng.integers(0, 9, (2, 5)), normal(9, 4), normal(9, 4)]
    model = one_node("RotaryEmbedding", feeds, {}, ("y",), DOMAIN, symbolic=False, constants=())
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
    given = {f"x{k}": feed for k, feed in enumerate(feeds)}
    for options in (REFERENCE, COMPILED):
        (found,) = gw.compile(model, options=options).run(given).values()
        np.testing.assert_allclose(found, by_runtime(model, given)[0], rtol=1e-5, atol=1e-6)


ENDS, ENDS_AND_STARTS = np.array([3, 5], np.int32), np.array([4, 5, 1, 2], np.int32)


@pytest.mark.parametrize(
    "mask", [None, flags(2, 5), flags(2, 5, 5), ENDS, ENDS_AND_STARTS], ids=["-", "2", "3", "1", "1+1"]
)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_equals_onnx_runtime(mask: Array | None, unidirectional: int) -> None:
    x, weights, bias = normal(2, 5, 12), normal(12, 24) / 4, normal(24)
    given: dict[str, Any] = {"num_heads": 2, "unidirectional": unidirectional, "constants": (1, 2)}
    compare("Attention", [x, weights, bias, mask], **given)
    more = [x, weights, bias, mask, None, normal(1, 2, 5, 5)]  # padding that sees padding rounds at -10000
    compare("Attention", more, ("y", "present"), tolerance=1e-3, **given)
    wider = normal(12, 28) / 4
    sizes = {"qkv_hidden_sizes": [8, 8, 12]}
    compare("Attention", [x, wider, normal(28), mask], mask_filter_value=-50.0, scale=0.3, **given, **sizes)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_after_a_cache(unidirectional: int) -> None:
    x, weights, past = normal(2, 3, 12), normal(12, 24) / 4, normal(2, 2, 2, 4, 4)
    given: dict[str, Any] = {"num_heads": 2, "unidirectional": unidirectional}
    for mask in (None, flags(2, 7)):
        compare("Attention", [x, weights, normal(24), mask, past], ("y", "present"), symbolic=True, **given)


def test_attention_of_symbolic_sizes() -> None:
    compare("Attention", [normal(3, 7, 12), normal(12, 24), normal(24)], symbolic=True, num_heads=2)


def test_a_mask_of_lengths_has_one_for_each_sequence_of_a_symbolic_batch() -> None:
    feeds = [normal(2, 5, 12), normal(12, 24), normal(24)]
    compare("Attention", [*feeds, ENDS], symbolic=True, num_heads=2)
    model = one_node(
        "Attention", [*feeds, ENDS_AND_STARTS], {"num_heads": 2}, ("y",), DOMAIN, symbolic=True, constants=()
    )
    with pytest.raises(FeedError, match="axis 0 of 'x0' must be 4, but is 2"):
        gw.compile(model, options=REFERENCE)(*feeds, ENDS_AND_STARTS)


@pytest.mark.parametrize("mask", [None, flags(2, 7), flags(2, 5, 7), ENDS], ids=["-", "2", "3", "1"])
def test_multi_head_attention_equals_onnx_runtime(mask: Array | None) -> None:
    q, k, v, bias = normal(2, 5, 12), normal(2, 7, 12), normal(2, 7, 18), normal(42)
    compare("MultiHeadAttention", [q, k, v, bias, mask], num_heads=3)
    compare("MultiHeadAttention", [q, k, v, None, mask, normal(2, 1, 5, 7)], num_heads=3, scale=0.2)


def test_multi_head_attention_of_symbolic_sizes() -> None:
    compare("MultiHeadAttention", [normal(2, 5, 12) for _ in range(3)], symbolic=True, num_heads=3)


@pytest.mark.parametrize("keys", [5, 7])
@pytest.mark.parametrize(
    "given", [{}, {"scale": 0.2}, {"unidirectional": 1}, {"mask_filter_value": -5.0}], ids=str
)
def test_scores_of_multi_head_attention(keys: int, given: dict[str, Any]) -> None:
    """As many keys as queries are appended to a cache."""
    cached = keys == 5
    q, k, v, bias = normal(2, 5, 12), normal(2, keys, 12), normal(2, keys, 12), normal(36)
    past = normal(2, 3, 2, 4) if cached else None
    added = normal(2, 3, 5, 7)
    mask = np.array([7, 3], np.int32) if "mask_filter_value" in given else None
    feeds = [q, k, v, bias, mask, added, past, past]
    outputs = ("y", *(("key", "value") if cached else ("", "")), "scores")
    model = one_node("MultiHeadAttention", feeds, {"num_heads": 3, **given}, outputs, DOMAIN, cached, ())
    model.graph.output[-1].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    named = {f"x{k}": feed for k, feed in enumerate(feeds) if feed is not None}
    actual = gw.compile(model, options=COMPILED).run(named).values()
    for a, e in zip(actual, by_runtime(model, named), strict=True):
        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention_after_a_cache(unidirectional: int) -> None:
    q, k, v, past = normal(2, 5, 12), normal(2, 5, 12), normal(2, 5, 12), normal(2, 3, 4, 4)
    for mask in (None, flags(2, 9)):
        feeds = [q, k, v, None, mask, None, past, past + 1]
        given: dict[str, Any] = {"num_heads": 3, "unidirectional": unidirectional}
        compare("MultiHeadAttention", feeds, ("y", "key", "value"), **given)


def test_multi_head_attention_of_packed_operands() -> None:
    """ONNX Runtime supports packed operands only on GPUs; the expected result is that of unpacked
    operands.
    """
    q, k, v = (normal(2, 5, 3, 4) for _ in range(3))
    apart = [x.reshape(2, 5, 12) for x in (q, k, v)]
    names = {"x0": apart[0], "x1": apart[1], "x2": apart[2]}
    (expected,) = by_runtime(
        one_node("MultiHeadAttention", apart, {"num_heads": 3}, ("y",), DOMAIN, symbolic=False, constants=()),
        names,
    )
    for feeds in ([np.stack([q, k, v], 3)], [apart[0], np.stack([k, v], 3)]):
        model = one_node(
            "MultiHeadAttention", feeds, {"num_heads": 3}, ("y",), DOMAIN, symbolic=False, constants=()
        )
        (found,) = gw.compile(model, options=COMPILED)(*feeds)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_multi_head_attention_of_keys_of_another_pass() -> None:
    feeds = [normal(2, 5, 12), normal(2, 3, 7, 4), normal(2, 3, 7, 4), normal(36)]
    compare("MultiHeadAttention", feeds, num_heads=3)


def test_unsupported_forms_of_attention_are_named() -> None:
    x, weights = normal(2, 5, 12), normal(12, 24)
    assert "do_rotary is not supported" in refused("Attention", [x, weights], num_heads=2, do_rotary=1)
    mask = np.ones((2, 1, 5, 5), np.int32)
    assert "a mask of 4 axes" in refused("Attention", [x, weights, None, mask], num_heads=2)
    assert "but input 0 is not packed" in refused("MultiHeadAttention", [x], num_heads=2)
    assert "but input 1 is not packed" in refused("MultiHeadAttention", [x, x], num_heads=2)
    shared = [x, x, x, *[None] * 5, np.array([3], np.int32)]
    assert "updated in place" in refused("MultiHeadAttention", shared, num_heads=2)


VARIANTS: list[dict[str, Any]] = [
    {},
    {"local_window_size": 3},
    {"softcap": 2.0, "scale": 0.4},
    {"smooth_softmax": 1},
    {"do_rotary": 1},
    {"do_rotary": 1, "rotary_interleaved": 1},
]


def with_angles(feeds: list[Array | None], attributes: dict[str, Any]) -> list[Array | None]:
    return [*feeds, *tables(32, 8)] if attributes.get("do_rotary") else feeds


@pytest.mark.parametrize("attributes", VARIANTS, ids=str)
def test_grouped_attention_equals_onnx_runtime(attributes: dict[str, Any]) -> None:
    three = ("y", "key", "value")
    given: dict[str, Any] = {**GROUPS, **attributes, "constants": (TOTAL,)}
    for symbolic in (False, True):
        prompt = with_angles(grouped(5, None, [4, 4], 5, 16), attributes)
        compare("GroupQueryAttention", prompt, three, symbolic=symbolic, **given)
        step = with_angles(grouped(1, 6, [6, 6], 7, 16), attributes)
        compare("GroupQueryAttention", step, three, symbolic=symbolic, **given)
    more = with_angles(grouped(3, 6, [8], 9, 16, batch=1), attributes)
    compare("GroupQueryAttention", more, three, **given)


def test_grouped_attention_of_one_packed_operand() -> None:
    q, k, v, *rest = grouped(5, None, [4, 4], 5, 16)
    packed = [np.concatenate([q, k, v], -1), None, None, *rest]
    attributes = {"do_rotary": 1}
    feeds = with_angles(packed, attributes)
    compare("GroupQueryAttention", feeds, ("y", "key", "value"), constants=(TOTAL,), **GROUPS, **attributes)


@pytest.mark.parametrize("total", [7, 9])
def test_grouped_attention_of_caches_of_unequal_fill(total: int) -> None:
    """The second sequence uses only some rows of its cache."""
    feeds = grouped(1, 9 if total == 7 else 8, [3, total - 1], total, 16)
    attributes: dict[str, Any] = {**GROUPS, "do_rotary": 1}
    feeds = with_angles(feeds, attributes)
    results = paired("GroupQueryAttention", feeds, ("y", "key", "value"), constants=(TOTAL,), **attributes)
    for (y, *caches), (y_expected, *expected) in results:
        np.testing.assert_allclose(y, y_expected, rtol=2e-5, atol=2e-5)
        for a, e in zip(caches, expected, strict=True):
            assert a.shape == e.shape
            for row, length in ((0, 4), (1, total)):
                np.testing.assert_allclose(a[row, :, :length], e[row, :, :length], rtol=2e-5, atol=2e-5)


def test_grouped_attention_of_prompts_of_unequal_length() -> None:
    feeds = with_angles(grouped(5, None, [2, 4], 5, 16), {"do_rotary": 1})
    results = paired("GroupQueryAttention", feeds, ("y",), constants=(TOTAL,), do_rotary=1, **GROUPS)
    for (y,), (expected,) in results:
        for row, length in ((0, 3), (1, 5)):
            np.testing.assert_allclose(y[row, :length], expected[row, :length], rtol=2e-5, atol=2e-5)


def test_grouped_attention_with_bias_sinks_and_positions() -> None:
    op_type, three = "GroupQueryAttention", ("y", "key", "value")  # it needs them all to read its cache
    given: dict[str, Any] = {**GROUPS, "constants": (TOTAL,)}
    for rows, past, lengths, total in ((5, None, [4, 4], 5), (1, 6, [6, 6], 7)):
        feeds = grouped(rows, past, lengths, total, 16)
        bias, sinks = normal(2, 4, rows, total), normal(4)
        compare(op_type, [*feeds, None, None, None, bias], three, **given)
        compare(op_type, [*feeds, None, None, None, bias[:1, :1], sinks], three, softcap=1.5, **given)
        places = np.array([range(total - rows, total)] * 2)
        compare(op_type, [*feeds, *tables(32, 8), places], three, do_rotary=1, **given)


def test_grouped_attention_that_looks_ahead() -> None:
    feeds = grouped(5, None, [4, 4], 5, 16)
    compare("GroupQueryAttention", feeds, constants=(TOTAL,), causal=0, **GROUPS)


@pytest.mark.parametrize(
    "epsilons", [{"qk_norm_epsilon": 1e-3}, {"q_norm_epsilon": 1e-3, "k_norm_epsilon": 1e-3}], ids=str
)
def test_grouped_attention_with_normalized_queries_and_keys(epsilons: dict[str, float]) -> None:
    """ONNX Runtime supports this only on GPUs; the expected result is that of operands that were normalized
    before.
    """
    feeds = grouped(5, None, [4, 4], 5, 16)
    weights = normal(16), normal(16)

    def normalized(x: Array, weight: Array) -> Array:
        wide = x.reshape(*x.shape[:2], -1, 16).astype(np.float64)
        scale = np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-3)
        return (wide / scale * weight).astype(np.float32).reshape(x.shape)

    plain = [normalized(feeds[0], weights[0]), normalized(feeds[1], weights[1]), *feeds[2:]]
    results = paired("GroupQueryAttention", plain, ("y",), constants=(TOTAL,), **GROUPS)
    normed = [*feeds, *[None] * 7, *weights]
    model = one_node(
        "GroupQueryAttention",
        normed,
        {**GROUPS, **epsilons},
        ("y",),
        DOMAIN,
        symbolic=False,
        constants=(TOTAL,),
    )
    found = gw.compile(model, options=COMPILED)(
        *(f for k, f in enumerate(normed) if f is not None and k != 6)
    )
    np.testing.assert_allclose(found[0], results[0][1][0], rtol=2e-5, atol=2e-5)


def test_grouped_attention_whose_cache_is_sized_by_an_input() -> None:
    for feeds in (grouped(5, None, [4, 4], 5), grouped(1, 6, [6, 6], 7), grouped(3, 6, [8], 9, batch=1)):
        compare("GroupQueryAttention", feeds, ("y", "key", "value"), **GROUPS)


def test_unsupported_forms_of_grouped_attention_are_named() -> None:
    op_type, feeds = "GroupQueryAttention", grouped(1, 6, [6, 6], 7)
    kinds = {"k_quant_type": "PER_TOKEN", "v_quant_type": "PER_TOKEN"}
    scaled = [*feeds, *[None] * 5, normal(1), normal(1)]
    assert "PER_TOKEN with 8 bits is not supported" in refused(op_type, scaled, **kinds, **GROUPS)
    window = refused(op_type, feeds, sliding_window_cache=1, **GROUPS)
    assert "sliding_window_cache needs local_window_size" in window
    padded = [*feeds, *[None] * 9, np.array([1, 1], np.int32)]
    assert "query_seqlens is not supported" in refused(op_type, padded, **GROUPS)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_the_last_row_of_causal_attention_sees_keys_of_another_length(rows: int, masked: bool) -> None:
    """A decoder that appends keys to its cache in the graph asks for one row."""
    q, k, v = (normal(2, length, 8) for length in (rows, 6, 6))
    feeds = [q, k, v, *([None, np.array([6, 3], np.int32)] if masked else [])]
    compare("MultiHeadAttention", feeds, num_heads=2, unidirectional=1)
