"""GroupQueryAttention with caches that are quantized, or hold only the rows of the window, compared with ONNX
Runtime. Rows of a cache that the op leaves undefined are not compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .contrib import GROUPS, Array, normal, paired, tables

HEADS, GROUP_COUNT, FEATURES = 4, 2, 16
TOTAL = 6
rng = np.random.default_rng(17)


def codes(bits: int, *shape: int) -> Array:
    if bits == 8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.integers(0, 256, (*shape[:-1], shape[-1] // 2)).astype(np.uint8)


def feeds_of(batch: int, past: int, rows: int, new: int, bits: int) -> list[Array | None]:
    """Seven inputs. The caches have ``rows`` rows, after ``past`` tokens; one less in the second sequence."""
    projections = [normal(batch, new, heads * FEATURES) for heads in (HEADS, GROUP_COUNT, GROUP_COUNT)]
    shape = (batch, GROUP_COUNT, rows, FEATURES)
    caches = [codes(bits, *shape) if bits else normal(*shape) for _ in range(2)]
    lengths = np.full(batch, past + new - 1, np.int32)
    if batch > 1 and past > 1:
        lengths[1] -= 1
    return [*projections, *caches, lengths, np.array(past + new, np.int32)]


def quantization(bits: int, per_channel: bool) -> tuple[list[Array], dict[str, Any]]:
    shape = (1, GROUP_COUNT, 1, FEATURES) if per_channel else (1,)
    scales = [(rng.uniform(0.5, 1.5, shape) / (40 if bits == 8 else 4)).astype(np.float32) for _ in range(2)]
    kind = "PER_CHANNEL" if per_channel else "PER_TENSOR"
    return scales, {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}


def compare(feeds: list[Array | None], counts: list[int], **attributes: Any) -> None:
    """``counts``: the number of defined rows of each sequence in the next cache."""
    outputs = ("y", "key", "value")
    for found, expected in paired("GroupQueryAttention", feeds, outputs, constants=(TOTAL,), **attributes):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-4)
        for a, e in zip(found[1:], expected[1:], strict=True):
            assert (a.dtype, a.shape) == (e.dtype, e.shape)
            for sequence, count in enumerate(counts):
                np.testing.assert_allclose(a[sequence, :, :count], e[sequence, :, :count], atol=1e-5)


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("bits", [8, 4])
def test_quantized_caches_agree_with_onnxruntime(bits: int, per_channel: bool, rotary: int) -> None:
    scales, attributes = quantization(bits, per_channel)
    for batch, past, new in ((1, 3, 1), (2, 0, 3), (2, 2, 1), (1, 4, 3)):
        feeds = feeds_of(batch, past, past, new, bits)
        feeds += [*(tables(32, 8) if rotary else [None, None]), None, None, None, *scales]
        lengths = feeds[5]
        assert lengths is not None
        compare(feeds, [int(n) + 1 for n in lengths], do_rotary=rotary, **attributes, **GROUPS)


def resident(tokens: int, capacity: int, window: int) -> int:
    """The number of rows of the cache, by the specification."""
    surplus = capacity - window + 1
    return tokens if tokens <= capacity else tokens - surplus * -(-(tokens - capacity) // surplus)


@pytest.mark.parametrize("bits", [0, 8])
@pytest.mark.parametrize(
    ("window", "capacity", "batch", "past", "new"),
    [
        (4, 4, 1, 0, 3),  # the cache is not full yet
        (4, 4, 1, 4, 1),
        (4, 4, 2, 9, 1),
        (3, 6, 1, 5, 1),
        (3, 6, 1, 6, 1),  # more rows than the window are removed at once
        (3, 6, 2, 11, 1),
        (3, 5, 1, 7, 4),
        (2, 3, 1, 0, 9),  # more new rows than the capacity
    ],
)
def test_caches_as_long_as_the_window(
    window: int, capacity: int, batch: int, past: int, new: int, bits: int
) -> None:
    feeds = [*feeds_of(batch, past, capacity, new, bits), *tables(32, 8)]
    attributes: dict[str, Any] = {"local_window_size": window, "sliding_window_cache": 1, "do_rotary": 1}
    if bits:
        scales, kinds = quantization(bits, per_channel=False)
        feeds, attributes = [*feeds, None, None, None, *scales], {**attributes, **kinds}
    lengths = feeds[5]
    assert lengths is not None
    counts = [resident(int(n) + 1, capacity, window) for n in lengths]
    compare(feeds, counts, **attributes, **GROUPS)


def test_sinks_with_a_cache_of_the_window() -> None:
    """As in gpt-oss."""
    feeds = [*feeds_of(2, 9, 4, 1, 0), *tables(32, 8), None, None, normal(HEADS)]
    attributes = {"local_window_size": 4, "sliding_window_cache": 1, "do_rotary": 1}
    compare(feeds, [4, 4], **attributes, **GROUPS)
