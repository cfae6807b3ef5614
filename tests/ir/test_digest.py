"""The condensed form of constants that is hashed, compared with the definition of NH (RFC 4418)."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright._native import condense_all
from graphwright.ir.constants.pool import ConstantPool

CHUNK = 4096
MASK = 2**64 - 1


def _key(words: int) -> list[int]:
    key, state = [], 0
    for _ in range(words):
        state = z = state + 0x9E3779B97F4A7C15 & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        key.append(z ^ z >> 31)
    return key


def _nh(chunk: bytes, key: list[int]) -> int:
    halves = 2**32 - 1
    words = np.frombuffer(chunk, "<u8").tolist()
    pairs = zip(words, key, strict=False)
    return sum((w + k & halves) * ((w >> 32) + (k >> 32) & halves) for w, k in pairs) & MASK


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 77])
@pytest.mark.parametrize("start", [0, 3])
def test_condensed_bytes_are_sums_of_products_and_the_tail(size: int, start: int) -> None:
    data = np.random.default_rng(size).bytes(start + size)[start:]
    view = memoryview(b"." * start + data)[start:]
    key = _key(CHUNK // 8 + 2)
    chunks = [data[i : i + CHUNK] for i in range(0, size - CHUNK + 1, CHUNK)]
    sums = [_nh(chunk, key[shift:]) for chunk in chunks for shift in (0, 2)]
    expected = np.array(sums, "<u8").tobytes() + data[len(chunks) * CHUNK :]
    assert condense_all([view, b"", view]) == [expected, b"", expected]


def test_any_changed_element_of_a_large_constant_is_another_constant() -> None:
    array = np.zeros(50_000, np.float32)
    pool = ConstantPool()
    first = pool.add(array)
    assert pool.add(array.copy()) == first
    for place in (0, 1, 1023, 1024, 25_000, 49_999):
        changed = array.copy()
        changed[place] = -0.0
        assert pool.add(changed) != first
    assert pool.add(array.reshape(2, -1)) != first
    assert len(pool) == 8


def test_hashing_in_advance_gives_the_same_digests() -> None:
    data = memoryview(np.random.default_rng(0).bytes(3 << 17))
    contents = [data[: 1 << 17], data[1 << 17 : 2 << 17], data[2 << 17 :]]
    arrays = [np.frombuffer(content, np.int32) for content in contents]
    arrays += [arrays[0].reshape(64, -1), arrays[1][:-1], arrays[2].astype(">i4"), arrays[0] + 1]
    ahead, plain = ConstantPool(), ConstantPool()
    ahead.hash_in_background(contents)
    assert [ahead.add(array) for array in arrays] == [plain.add(array) for array in arrays]
    assert len(ahead) == len(arrays) - 1  # byte order is not content
