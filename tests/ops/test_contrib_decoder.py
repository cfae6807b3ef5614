"""DecoderMaskedMultiHeadAttention of ONNX Runtime's domain, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphwright as gw

from .contrib import DOMAIN, REFERENCE, Array, compare, normal, one_node, refused

BATCH, HEADS, WIDTH, PAST, LONGEST = 4, 2, 4, 3, 6
OUTPUTS = ("y", "keys", "values")
rng = np.random.default_rng(11)
MASK = np.ones((BATCH, PAST + 1), np.int32)
MASK[1, 0] = 0


def feeds(
    *, mask: bool = True, bias: bool = False, projection: bool = False, beams: bool = False
) -> list[Array | None]:
    """The operands of a token that follows ``PAST`` others."""
    return [
        *(normal(BATCH, 1, HEADS * WIDTH) for _ in range(3)),
        MASK if mask else None,
        normal(1, HEADS, 1, PAST + 1) if bias else None,
        *(normal(BATCH, HEADS, LONGEST, WIDTH) for _ in range(2)),
        np.array([PAST], np.int32),
        np.array([2], np.int32) if beams else None,
        rng.integers(0, 2, (BATCH // 2, 2, LONGEST)).astype(np.int32) if beams else None,
        *([normal(3 * HEADS * WIDTH)] if projection else []),
    ]


def attend(given: list[Array | None], outputs: tuple[str, ...] = OUTPUTS, **attributes: Any) -> None:
    while given[-1] is None:
        given.pop()
    attributes = {"num_heads": HEADS, "past_present_share_buffer": int(len(outputs) > 1), **attributes}
    compare("DecoderMaskedMultiHeadAttention", given, outputs, **attributes)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("beams", [False, True])
def test_a_token_is_written_into_the_buffers(beams: bool, mask: bool) -> None:
    attend(feeds(mask=mask, beams=beams), scale=0.3)


@pytest.mark.parametrize("mask", [False, True])
def test_biases_agree_with_onnxruntime(mask: bool) -> None:
    attend(feeds(mask=mask, bias=True, projection=True), mask_filter_value=-1.0)


@pytest.mark.parametrize("projection", [False, True])
def test_keys_and_values_of_an_encoder(projection: bool) -> None:
    given = feeds(projection=projection)
    given[1:3] = [normal(BATCH, HEADS, PAST + 1, WIDTH) for _ in range(2)]
    given[5:8] = [None] * 3
    attend(given, ("y",))


def test_16_bit_floats_agree_with_onnxruntime() -> None:
    given = [a.astype(np.float16) if a is not None and a.dtype == np.float32 else a for a in feeds(bias=True)]
    attend(given, tolerance=4e-3)


def test_packed_operands_are_those_of_three_inputs() -> None:
    """ONNX Runtime's CPU kernel rejects them."""
    given = feeds()[:8]
    packed = np.concatenate([a for a in given[:3] if a is not None], 2)
    results = []
    for form in (given, [packed, None, None, *given[3:]]):
        attributes = {"num_heads": HEADS, "past_present_share_buffer": 1}
        model = one_node(
            "DecoderMaskedMultiHeadAttention", form, attributes, OUTPUTS, DOMAIN, symbolic=False, constants=()
        )
        named = {f"x{k}": a for k, a in enumerate(form) if a is not None}
        results.append(list(gw.compile(model, options=REFERENCE).run(named).values()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_scores_are_refused() -> None:
    message = refused("DecoderMaskedMultiHeadAttention", feeds()[:8], (*OUTPUTS, "scores"), num_heads=HEADS)
    assert "output_qk is not supported" in message
