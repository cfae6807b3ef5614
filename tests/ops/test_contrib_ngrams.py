"""NGramHashMapping of ONNX Runtime's domain, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .contrib import Array, compare, refused

IDS = np.array([[5, 7, 2, 9, 4, 2, 8], [2, 2, 1, 3, 6, 5, 7]])
MULTIPLIERS = np.array([3, 2**62 + 1, 7, 11])
SIZES = np.array([11, 13, 17, 19, 23, 29])
PAST = np.array([[100, 200, 2], [2, 5, 1]])
END = np.array(2)
SEGMENTS = np.array([[0, 0, 1, 1, 1, 2, 2], [3, 3, 3, 3, 1, 1, 0]], np.int32)


def hashed(feeds: list[Array | None], **attributes: Any) -> None:
    given = {"max_ngram_size": 4, "n_head_per_ngram": 2, "pad_id": 1, **attributes}
    compare("NGramHashMapping", feeds, ("hashes", "past"), **given)


@pytest.mark.parametrize("reset", [0, 1])
@pytest.mark.parametrize("past", [None, PAST])
@pytest.mark.parametrize("end", [None, END])
@pytest.mark.parametrize("segments", [None, SEGMENTS])
def test_hashes_of_the_last_tokens(
    segments: Array | None, end: Array | None, past: Array | None, reset: int
) -> None:
    feeds = [IDS, MULTIPLIERS, SIZES, past, None, end, segments]
    while feeds[-1] is None:
        feeds.pop()
    hashed(feeds, reset_on_eos=reset)


def test_offsets_and_negative_ids() -> None:
    hashed([-IDS, MULTIPLIERS, SIZES, None, np.arange(6) * 100])
    hashed([IDS[:, :1], MULTIPLIERS, SIZES, PAST])


def test_sizes_of_ngrams_are_checked() -> None:
    attributes = {"max_ngram_size": 1, "n_head_per_ngram": 2}
    message = refused("NGramHashMapping", [IDS, MULTIPLIERS, SIZES], ("y", "past"), **attributes)
    assert "max_ngram_size is 1" in message
