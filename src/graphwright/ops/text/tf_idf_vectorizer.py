"""TfIdfVectorizer."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I32, I64, STRING, TensorType
from graphwright.ops.core.checks import need_dtype

MODES = ("TF", "IDF", "TFIDF")
_Grams = dict[tuple[Any, ...], list[int]]
"""The numbers of each n-gram: a pool may have it more than once."""


@op("TfIdfVectorizer")
class TfIdfVectorizer(Op):
    """Counts the n-grams of a pool in each row of tokens: f32[size] for tokens [C], f32[N, size] for tokens
    [N, C].

    Operands: the tokens, the pool, and for each n-gram of the pool its position in the output and its weight.
    The 1-grams start at element ``starts[0]`` of the pool, the 2-grams at ``starts[1]``, and so on; those of
    ``shortest`` to ``longest`` tokens are counted. The tokens of an n-gram are equally spaced, with up to
    ``skips`` other tokens between two of them. ``mode`` TF gives the counts, IDF the weights of n-grams that
    occur, TFIDF their products (Spärck Jones 1972).
    """

    mode: str
    size: int
    starts: tuple[int, ...]
    shortest: int
    longest: int
    skips: int

    def verify(self) -> None:
        if self.mode not in MODES:
            raise InferError(f"mode {self.mode!r} is not one of {', '.join(MODES)}")
        if not 1 <= self.shortest <= self.longest <= len(self.starts):
            lengths = f"{self.shortest} to {self.longest}"
            raise InferError(
                f"n-grams of {lengths} tokens: the pool has n-grams of 1 to {len(self.starts)} tokens"
            )
        if self.skips < 0 or list(self.starts) != sorted(self.starts) or min(self.starts) < 0:
            raise InferError(
                f"ngram_counts is {self.starts} and max_skip_count {self.skips}: they must be at least 0, and"
                " ngram_counts must be sorted"
            )

    def infer(self, at: Inference, x: Fact, pool: Fact, positions: Fact, weights: Fact) -> TensorType:
        need_dtype(at, x, {STRING} if pool.dtype == STRING else {I32, I64})
        need_dtype(at, pool, {STRING, I64}, "the pool")
        need_dtype(at, positions, {I64}, "the index tensor")
        need_dtype(at, weights, {F32}, "the weight tensor")
        if x.rank not in (1, 2):
            raise at.fail(f"the input is {x.type}; it must be [C] or [N, C]")
        for what, fact in (("pool", pool), ("index tensor", positions), ("weight tensor", weights)):
            if fact.rank != 1:
                raise at.fail(f"the {what} is {fact.type}; it must be a vector")
        (count,) = pool.shape
        parts = self._parts(count) if isinstance(count, int) else None
        if parts is None:
            raise at.fail(f"a pool of {count} tokens cannot be split into n-grams at {self.starts}")
        grams = sum((end - start) // length for length, start, end in parts)
        at.equal(positions.shape[0], grams, "indexes and n-grams")
        at.equal(weights.shape[0], grams, "weights and n-grams")
        return TensorType(F32, (*x.shape[:-1], self.size))

    def reference(self, x: Array, pool: Array, positions: Array, weights: Array) -> Array:
        grams = self._grams(pool)
        rows = x if x.ndim == 2 else x[np.newaxis]
        found = [
            row * len(positions) + number
            for window in self._windows(rows.T.tolist())
            for row, numbers in enumerate(map(grams.get, window, repeat(())))
            for number in numbers
        ]
        distinct, counts = np.unique(np.array(found, np.int64), return_counts=True)
        row, gram = np.divmod(distinct, max(len(positions), 1))
        occurrences = counts.astype(weights.dtype)
        scores = {"TF": occurrences, "IDF": weights[gram], "TFIDF": occurrences * weights[gram]}
        y = np.zeros((len(rows), self.size), dtype=weights.dtype)
        np.add.at(y, (row, positions[gram]), scores[self.mode])
        return y if x.ndim == 2 else y[0]

    def _grams(self, pool: Array) -> _Grams:
        """The n-grams of ``pool``; those of a constant pool are made once."""
        if pool.flags.writeable:
            return self._table(pool)
        if pool.dtype != object:  # a new view of the same memory in each run
            return _grams_of_numbers(self, pool.tobytes())
        key = self, id(pool)
        if key not in _GRAMS_OF_TEXTS:
            until_gone = weakref.ref(pool, lambda _: _GRAMS_OF_TEXTS.pop(key, None))
            _GRAMS_OF_TEXTS[key] = until_gone, self._table(pool)
        return _GRAMS_OF_TEXTS[key][1]

    def _table(self, pool: Array) -> _Grams:
        grams: _Grams = {}
        tokens = pool.tolist()
        for k, (start, stop) in enumerate(self._bounds(len(tokens))):
            grams.setdefault(tuple(tokens[start:stop]), []).append(k)
        return grams

    def _parts(self, count: int) -> list[tuple[int, int, int]] | None:
        """For each length of n-grams: the length, and the begin and end of its part of a pool of ``count``
        tokens. None if a part does not consist of whole n-grams.
        """
        ends = (*self.starts[1:], count)
        parts = [(n, start, end) for n, (start, end) in enumerate(zip(self.starts, ends, strict=True), 1)]
        return None if any(end < start or (end - start) % n for n, start, end in parts) else parts

    def _bounds(self, count: int) -> list[tuple[int, int]]:
        """The begin and end of each n-gram in the pool."""
        parts = self._parts(count) or ()
        return [(k, k + length) for length, start, end in parts for k in range(start, end, length)]

    def _windows(self, columns: Sequence[Sequence[Any]]) -> Iterator[Iterator[tuple[Any, ...]]]:
        """The n-grams of all rows, for each place and spacing; ``columns[k]`` are the k-th tokens."""
        for length in range(self.shortest, min(self.longest, len(columns)) + 1):
            for step in range(1, 2 + (self.skips if length > 1 else 0)):
                span = (length - 1) * step
                if span >= len(columns):
                    break
                for start in range(len(columns) - span):
                    yield zip(*columns[start : start + span + 1 : step], strict=True)


_GRAMS_OF_TEXTS: dict[tuple[TfIdfVectorizer, int], tuple[weakref.ref[Array], _Grams]] = {}
"""The n-grams of pools of texts, by op and identity of the pool's array. An entry is valid while the array
exists.
"""


@lru_cache(maxsize=16)
def _grams_of_numbers(op: TfIdfVectorizer, pool: bytes) -> _Grams:
    return op._table(np.frombuffer(pool, np.int64))


def _import(i: Importer) -> Any:
    strings, numbers = i.attr("pool_strings"), i.attr("pool_int64s")
    if (strings is None) == (numbers is None):
        raise i.fail("exactly one of pool_strings and pool_int64s must be given", "export the model again")
    pool = np.array(numbers, np.int64) if strings is None else np.array(strings, dtype=object)
    positions = np.array(i.required_attr("ngram_indexes"), np.int64)
    if positions.size and not 0 <= positions.min() <= positions.max() < 2**31:
        raise i.fail("ngram_indexes must be between 0 and 2**31 - 1", "export the model again")
    given = i.attr("weights")
    op = TfIdfVectorizer(
        mode=str(i.required_attr("mode")),
        size=int(positions.max(initial=-1)) + 1,
        starts=tuple(i.required_attr("ngram_counts")),
        shortest=i.required_attr("min_gram_length"),
        longest=i.required_attr("max_gram_length"),
        skips=i.required_attr("max_skip_count"),
    )
    weights = np.ones(positions.shape, np.float32) if given is None else np.array(given, np.float32)
    return i.emit(op, i.input(0), i.const(pool), i.const(positions), i.const(weights))


TfIdfVectorizer.onnx = {("TfIdfVectorizer", 9): _import}
_TABLE = (
    arg(I64, 7, values=(2, 3, 5, 5, 6, 7, 8)),
    arg(I64, 5, values=(0, 3, 1, 2, 4)),
    arg(F32, 5, values=(1.0, 0.5, 2.0, 3.0, 0.25)),
)
_TEXTS = (
    arg(STRING, 4, values=("s1", "s2", "s1", "s2")),
    arg(I64, 3, values=(1, 0, 1)),
    arg(F32, 3, values=(1.0, 0.5, 2.0)),
)
_ROW = arg(I32, 2, 6, values=(2, 5, 6, 5, 6, 8, 7, 8, 3, 3, 7, 8))
_BIGRAMS = TfIdfVectorizer("TF", 5, (0, 3), 1, 2, 1)
TfIdfVectorizer.samples = (
    *(Sample(TfIdfVectorizer(mode, 5, (0, 3), 1, 2, 1), (_ROW, *_TABLE)) for mode in MODES),
    Sample(TfIdfVectorizer("TF", 5, (0, 3), 2, 2, 7), (_ROW, *_TABLE)),
    Sample(TfIdfVectorizer("TFIDF", 2, (0, 2), 1, 2, 0), (arg(STRING, symbol("N"), 5), *_TEXTS)),
    Sample(_BIGRAMS, (arg(I64, symbol("C"), fill="index"), *_TABLE)),
    Sample(_BIGRAMS, (arg(I64, 0), *_TABLE)),
    Sample(_BIGRAMS, (arg(I64, 0, 3), *_TABLE)),
    Sample(_BIGRAMS, (arg(STRING, 3), *_TABLE), "the input is string; it must be i32 or i64"),
    Sample(_BIGRAMS, (arg(I64, 2, 3, 4), *_TABLE), "must be [C] or [N, C]"),
    Sample(TfIdfVectorizer("TF", 5, (0, 2), 1, 2, 1), (_ROW, *_TABLE), "cannot be split into n-grams"),
    Sample(TfIdfVectorizer("TF", 5, (0, 7), 1, 2, 1), (_ROW, *_TABLE), "indexes and n-grams: 5 and 7 differ"),
    Sample(
        TfIdfVectorizer("TF", 5, (0, 3), 1, 3, 1), (_ROW, *_TABLE), "the pool has n-grams of 1 to 2 tokens"
    ),
    Sample(TfIdfVectorizer("BM25", 5, (0, 3), 1, 2, 1), (_ROW, *_TABLE), "is not one of TF, IDF, TFIDF"),
)
