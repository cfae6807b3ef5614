"""Tokenizer, an op of ONNX Runtime's domain ``com.microsoft``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, STRING, TensorType
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.text.patterns import compiled

_START, _END = "\x02", "\x03"


@op("Tokenizer")
class Tokenizer(Op):
    """The tokens of each string along a new last axis, padded with ``pad``. Their number is data-dependent.

    Tokens are the matches of the pattern ``token``, or the texts between matches of ``separators``; if both
    are empty, single characters. A match of a separator that overlaps a match of an earlier separator is
    ignored. Tokens of fewer than ``shortest`` characters are dropped. With ``mark``, the characters STX and
    ETX enclose the tokens of each string, if any string has a token. Patterns are regular expressions of RE2,
    with longest match.
    """

    pad: str
    token: str = ""
    separators: tuple[str, ...] = ()
    shortest: int = 1
    mark: bool = False

    def verify(self) -> None:
        if self.token and self.separators:
            raise InferError("tokenexp and separators are both given; only one is allowed")
        for pattern in (self.token, *self.separators):
            compiled(pattern, longest=True)

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, {STRING})
        return TensorType(STRING, (*x.shape, at.symbols.fresh("tokens")))

    def reference(self, x: Array) -> Array:
        rows = [self._tokens(str(text)) for text in x.ravel()]
        if self.mark and any(rows):
            rows = [[_START, *row, _END] for row in rows]
        y = np.full((len(rows), max(map(len, rows), default=0)), self.pad, dtype=object)
        for k, row in enumerate(rows):
            y[k, : len(row)] = row
        return y.reshape(*x.shape, y.shape[1])

    def _tokens(self, text: str) -> list[str]:
        if not self.token and not self.separators:
            return list(text)
        shortest = max(self.shortest, 1)
        pattern = compiled(self.token, longest=True) if self.token else None
        if isinstance(pattern, re.Pattern):  # has no groups
            return [token for token in pattern.findall(text) if len(token) >= shortest]
        spans = _matches(self.token, text) if self.token else self._between_separators(text)
        return [text[start:end] for start, end in spans if end - start >= shortest]

    def _between_separators(self, text: str) -> list[tuple[int, int]]:
        """The spans between the matches of separators."""
        matched: list[tuple[int, int]] = []
        for separator in self.separators:
            matched += [
                (start, end)
                for start, end in _matches(separator, text)
                if all(end <= first or last <= start for first, last in matched)
            ]
        matched.sort()
        starts = (0, *(end for _, end in matched))
        ends = (*(start for start, _ in matched), len(text))
        return list(zip(starts, ends, strict=True))


def _matches(pattern: str, text: str) -> list[tuple[int, int]]:
    """The spans of all longest matches that are not empty, from left to right."""
    spans = (match.span() for match in compiled(pattern, longest=True).finditer(text))
    return [(start, end) for start, end in spans if start < end]


def _import(i: Importer) -> Any:
    separators, token = i.attr("separators") or (), str(i.attr("tokenexp") or "")
    if not separators and not token:
        raise i.fail("neither separators nor tokenexp is given", "export the model again")
    op = Tokenizer(
        pad=str(i.required_attr("pad_value")),
        token=token,
        separators=() if separators == ("",) else tuple(separators),
        shortest=int(i.attr("mincharnum", 1)),
        mark=bool(i.attr("mark", 0)),
    )
    return i.emit(op, i.input(0))


register_contrib(Tokenizer, Tokenizer=_import)
_TEXTS = arg(STRING, 2, 2, values=("a bc  d", "", "é,f;g", "s1"))
Tokenizer.samples = (
    Sample(Tokenizer("#"), (_TEXTS,)),
    Sample(Tokenizer("#", "[a-z]+", mark=True), (_TEXTS,)),
    Sample(Tokenizer("#", separators=(" +", ",|;")), (_TEXTS,)),
    Sample(Tokenizer("#", "[a-z0-9]+", shortest=2), (arg(STRING, symbol("N")),)),
    Sample(Tokenizer("#"), (arg(STRING, 0),)),
    Sample(Tokenizer("#"), (arg(F32, 2),), "the input is f32; it must be string"),
    Sample(Tokenizer("#", "("), (_TEXTS,), "missing )"),
    Sample(Tokenizer("#", "a", ("b",)), (_TEXTS,), "tokenexp and separators are both given"),
)
