"""Ops of ONNX Runtime's domain that carry a state from token to token, and ops of residual streams, compared
with ONNX Runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .contrib import Array, compare, normal, refused

BATCH, TOKENS, QUERIES, HEADS, KEYS, VALUES = 2, 3, 2, 4, 5, 3
RULES = ("linear", "gated", "delta", "gated_delta")


def operands(rule: str = "gated_delta", lead: tuple[int, ...] = (6,), **given: Any) -> list[Array | None]:
    """Of GatedDeltaNet: query, key, value, no bounds, decay, rate and state; ``given`` replaces some."""
    keys = normal(*lead, QUERIES, KEYS)
    found = {
        "query": normal(*lead, QUERIES, KEYS),
        "key": keys / np.linalg.norm(keys, axis=-1, keepdims=True),
        "value": normal(*lead, HEADS, VALUES),
        "bounds": None,
        "decay": -np.abs(normal(*lead, HEADS)) if "gated" in rule else None,
        "rate": np.abs(normal(*lead, HEADS)) / 2 if "delta" in rule else None,
        "state": normal(BATCH, HEADS, VALUES, KEYS),
        **given,
    }
    return list(found.values())


def compare_delta(feeds: list[Array | None], rule: str = "gated_delta", **attributes: Any) -> None:
    while feeds[-1] is None:
        feeds.pop()
    tolerance = 4e-3 if feeds[0] is not None and feeds[0].dtype == np.float16 else 1e-4
    attributes = {"tolerance": tolerance, "update_rule": rule, **attributes}
    compare("GatedDeltaNet", feeds, ("y", "state"), **attributes)


@pytest.mark.parametrize("rule", RULES)
def test_gated_delta_net_agrees_with_onnxruntime(rule: str) -> None:
    compare_delta(operands(rule), rule)
    compare_delta(operands(rule, (BATCH, TOKENS), state=None), rule, scale=0.3)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bounds", [(0, 1, 5), (0, 0, 6), (0, 6, 6)])
def test_sequences_of_several_lengths(rule: str, bounds: tuple[int, ...]) -> None:
    feeds = operands(rule, (bounds[-1],), bounds=np.asarray(bounds, np.int32))
    compare_delta(feeds, rule)
    feeds[6] = None
    compare_delta(feeds, rule)


@pytest.mark.parametrize("kind", ["softplus", "qwen", "sigmoid", "kda"])
@pytest.mark.parametrize("per_key", [False, True])
def test_gates_of_delta_nets(kind: str, per_key: bool) -> None:
    """``per_key``: there is a decay for each key dimension."""
    sizes = (HEADS, KEYS) if per_key else (HEADS,)
    gates = {"gate_activation": kind, "beta_activation": "sigmoid", "gate_lower_bound": -2.0}
    for bias in (sizes, (HEADS * KEYS,) if per_key else sizes):
        feeds = operands(decay=normal(6, *sizes), rate=normal(6, HEADS))
        compare_delta([*feeds, normal(HEADS), normal(*bias)], **gates)


def test_vectors_of_delta_nets_are_normalized() -> None:
    """Short ones too, which show the epsilon."""
    query, key = normal(6, QUERIES, KEYS), normal(6, QUERIES, KEYS)
    query[0] *= 1e-3
    key[1] *= 1e-3
    compare_delta(operands(query=query, key=key), qk_l2_norm=1)


@pytest.mark.parametrize("lead", [(6,), (BATCH, TOKENS)])
def test_packed_operands_of_delta_nets(lead: tuple[int, ...]) -> None:
    feeds = operands(lead=lead)
    parts = [feed.reshape(*lead, -1) for feed in feeds[:3] if feed is not None]
    compare_delta([np.concatenate(parts, -1), None, None, *feeds[3:]])


def test_delta_nets_of_16_bits() -> None:
    feeds = [None if feed is None else feed.astype(np.float16) for feed in operands()]
    state = normal(BATCH, HEADS, VALUES, KEYS)
    compare_delta([*feeds[:6], state])


def test_unsupported_delta_nets_are_refused() -> None:
    def message(feeds: list[Array | None], **attributes: Any) -> str:
        return refused("GatedDeltaNet", feeds, ("y", "state"), **attributes)

    assert "update_rule 'other' is not one of linear, gated" in message(operands(), update_rule="other")
    assert "export the model with state_update_capacity=0" in message(operands(), state_update_capacity=2)
    assert "gate_activation 'other' is not one of" in message(operands(), gate_activation="other")
    assert "beta_activation 'other' is not one of" in message(operands(), beta_activation="other")
    assert "needs input 4, 'decay'" in message(operands(decay=None))
    feeds = operands()
    assert "add cu_seqlens or initial_state" in message(feeds[:6])
    assert "does not have 4 axes" in message([feeds[0], None, None, None, feeds[4], feeds[5]])
    assert "as many value heads as query heads" in message(operands(query=normal(6, 3, KEYS)))


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("tokens", [1, 5])
def test_causal_convolutions_agree_with_onnxruntime(tokens: int, dilation: int, past: bool) -> None:
    given = {"dilation": dilation, "activation": "swish"}
    kept = 3 * dilation
    feeds = [normal(2, 4, tokens), normal(4, 1, 4), normal(4)]
    state = [normal(2, 4, kept)] if past else []
    compare("CausalConvWithState", feeds + state, ("y", "state"), constants=(1, 2), symbolic=False, **given)
    feeds[0] = normal(2, tokens, 4)
    state = [normal(2, kept, 4)] if past else []
    compare("CausalConvWithState", feeds + state, ("y", "state"), channels_last=1, constants=(1,), **given)
    feeds[0] = normal(2, tokens, 2, 2)
    state = [normal(2, kept, 2, 2)] if past else []
    compare("CausalConvWithState", feeds + state, ("y", "state"), channels_last=1, **given)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("bounds", [(0, 7), (0, 1, 7), (0, 2, 3, 7)])
def test_causal_convolutions_of_packed_sequences(bounds: tuple[int, ...], dilation: int) -> None:
    kept, batch = 3 * dilation, len(bounds) - 1
    feeds = [normal(7, 3), normal(3, 1, 4), np.asarray(bounds, np.int32), normal(3), normal(batch, 3, kept)]
    compare("VarlenCausalConvWithState", feeds, ("y", "state"), dilation=dilation, activation="silu")
    compare("VarlenCausalConvWithState", [*feeds[:3], None, feeds[4]], ("y", "state"), dilation=dilation)


def test_unsupported_causal_convolutions_are_refused() -> None:
    feeds = [normal(2, 3, 5), normal(3, 1, 4)]
    assert "export the model with state_window=0" in refused("CausalConvWithState", feeds, state_window=2)
    assert "export the model with ndim=1" in refused("CausalConvWithState", feeds, ndim=2)
    assert "dilation is 0" in refused("CausalConvWithState", feeds, dilation=0)
    assert "activation 'relu' is not one of" in refused("CausalConvWithState", feeds, activation="relu")
    assert "[channels, 1, taps]" in refused("CausalConvWithState", [feeds[0], normal(3, 2, 4)])
    assert "[batch, channels, tokens]" in refused("CausalConvWithState", [normal(2, 3, 5, 1), feeds[1]])
    packed = [normal(7, 3), normal(3, 1, 4), np.asarray([0, 7], np.int32), None, normal(1, 3, 3)]
    message = refused("VarlenCausalConvWithState", packed, ("y", "state"), state_update_capacity=1)
    assert "state_update_capacity and kernel_delta are not supported" in message


@pytest.mark.parametrize("count", [0, 3])
def test_streams_of_hyper_connections(count: int) -> None:
    streams = normal(2, 4, 15) if count else normal(2, 4, 3, 5)
    for gates in ((2, 4, 3), (2, 4, 3, 1), (2, 4, 3, 5)):
        compare(
            "HyperConnectionPreMix", [streams, normal(*gates)], num_branches=count, reduction_scale=0.5,
            symbolic=True,
        )  # fmt: skip
        for mix in ([], [normal(2, 4, 3, 3)]):
            feeds = [streams, normal(2, 4, 5), normal(*gates), *mix]
            compare("HyperConnectionPostMix", feeds, num_branches=count)
    for scale in ([], [normal(15)], [normal(3, 5)], [normal(5)]):
        compare("BranchwiseRMSNorm", [streams, *scale], num_branches=count, epsilon=0.01)


def test_gates_of_all_features_of_flat_streams() -> None:
    feeds = [normal(2, 4, 15), normal(2, 4, 15)]
    compare("HyperConnectionPreMix", feeds, num_branches=3)
    assert "num_branches is -1" in refused("HyperConnectionPreMix", feeds, num_branches=-1)
    assert "[..., C, H]" in refused("BranchwiseRMSNorm", [normal(5)])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_engram_gates_agree_with_onnxruntime(dtype: Any) -> None:
    tolerance = 2e-5 if dtype == np.float32 else 4e-3
    sizes = ((2, 4, 3, 5), (2, 4, 3, 5), (2, 4, 5), (3, 5), (3, 5), (3, 5))
    feeds = [normal(*shape, dtype=dtype) for shape in sizes]
    compare("EngramGate", feeds[:5], epsilon=0.01, tolerance=tolerance)
    compare("EngramGate", feeds, ("y", "normed"), tolerance=tolerance)
