"""MurmurHash3 of ONNX Runtime's domain, which hashes features."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, I64, STRING, U32, U64, TensorType
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.checks import need_dtype

DTYPES = frozenset({I32, I64, U32, U64, F32, F64, STRING})
MAX_SEED = 2**32 - 1


@op("MurmurHash3")
class MurmurHash3(Op):
    """The 32-bit hash MurmurHash3_x86_32 (Appleby, 2011) of the bytes of each element; strings as UTF-8.

    The result is u32, or i32 with the same bits if not ``positive``.
    """

    seed: int = 0
    positive: bool = True

    def verify(self) -> None:
        if not 0 <= self.seed <= MAX_SEED:
            raise InferError(f"the seed is {self.seed}; it must be from 0 to {MAX_SEED}")

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, DTYPES)
        return TensorType(U32 if self.positive else I32, x.type.shape)

    def reference(self, x: Array) -> Array:
        if x.dtype.kind == "O":
            texts = [_bytes_hash(str(text).encode(), self.seed) for text in x.ravel()]
            hashes = np.array(texts, np.uint32).reshape(x.shape)
        else:
            count = x.dtype.itemsize // 4
            words = np.ascontiguousarray(x).reshape(-1, 1).view(np.uint32).reshape(*x.shape, count)
            hashes = _hash(words, x.dtype.itemsize, self.seed)
        return hashes if self.positive else hashes.view(np.int32)


def _bytes_hash(data: bytes, seed: int) -> Any:
    """The hash of ``data``; its last 1 to 3 bytes are a word that is not rotated into the hash."""
    whole = len(data) // 4 * 4
    words = np.frombuffer(data[:whole], "<u4").astype(np.uint32)
    tail = np.uint32(int.from_bytes(data[whole:], "little"))
    return _hash(words, len(data), seed, tail)


def _hash(words: Array, length: int, seed: int, tail: Any = None) -> Array:
    """The hashes of the words of the last axis, ``length`` bytes with ``tail``; products wrap around."""
    with np.errstate(over="ignore"):
        h = np.full(words.shape[:-1], seed, np.uint32)
        for k in range(words.shape[-1]):
            h = _rotated(h ^ _mixed(words[..., k]), 13) * np.uint32(5) + np.uint32(0xE6546B64)
        if tail is not None:
            h = h ^ _mixed(tail)
        h = h ^ np.uint32(length)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return np.asarray(h ^ (h >> np.uint32(16)))


def _mixed(word: Any) -> Any:
    return _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _rotated(word: Any, bits: int) -> Any:
    return (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))


def _import(i: Importer) -> Any:
    return i.emit(MurmurHash3(int(i.attr("seed", 0)) % 2**32, bool(i.attr("positive", 1))), i.input(0))


register_contrib(MurmurHash3, MurmurHash3=_import)
MurmurHash3.samples = (
    *(Sample(MurmurHash3(), (arg(dtype, 2, 3),)) for dtype in (I32, I64, U32, U64, F32, F64, STRING)),
    Sample(MurmurHash3(7, positive=False), (arg(STRING, 5, values=("", "a", "ab", "abc", "abcde")),)),
    Sample(MurmurHash3(MAX_SEED), (arg(I64, symbol("N"), 2),)),
    Sample(MurmurHash3(), (arg(I32),)),
    Sample(MurmurHash3(), (arg(STRING, 0, 3),)),
    Sample(MurmurHash3(), (arg(F64, 0, 3),)),
    Sample(MurmurHash3(), (arg(F16, 2),), "the input is f16"),
    Sample(MurmurHash3(-1), (arg(I32, 2),), "the seed is -1; it must be from 0 to"),
)
