"""RegexFullMatch."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, STRING, TensorType
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.text.patterns import compiled


@op("RegexFullMatch")
class RegexFullMatch(Op):
    """Whether ``pattern``, a regular expression of RE2, matches each string completely."""

    pattern: str

    def verify(self) -> None:
        compiled(self.pattern)

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, {STRING})
        return TensorType(BOOL, x.type.shape)

    def reference(self, x: Array) -> Array:
        pattern = compiled(self.pattern)
        matched = [pattern.fullmatch(str(text)) is not None for text in x.ravel()]
        return np.array(matched, dtype=np.bool_).reshape(x.shape)


def _import(i: Importer) -> Any:
    return i.emit(RegexFullMatch(str(i.required_attr("pattern"))), i.input(0))


RegexFullMatch.onnx = {("RegexFullMatch", 20): _import}
RegexFullMatch.to_onnx = as_onnx("RegexFullMatch", pattern="pattern")
_TEXTS = arg(STRING, 2, 3, values=("s1", "S2", "", "s1\n", "s11", "é"))
RegexFullMatch.samples = (
    *(
        Sample(RegexFullMatch(p), (_TEXTS,))
        for p in ("s[0-9]+", "(?i)s.", "", "s1$", r"\pL", "(a|s1?){2,}|.*2")
    ),
    Sample(RegexFullMatch(r"s[12]"), (arg(STRING, symbol("N"), 3),)),
    Sample(RegexFullMatch(r"s[12]"), (arg(STRING),)),
    Sample(RegexFullMatch(r"s[12]"), (arg(STRING, 2, 0),)),
    Sample(RegexFullMatch("s"), (arg(F32, 2),), "the input is f32; it must be string"),
    Sample(RegexFullMatch("(s"), (_TEXTS,), "missing )"),
    Sample(RegexFullMatch(r"(s)\1"), (_TEXTS,), "invalid escape sequence"),
    Sample(RegexFullMatch("(?=s)s"), (_TEXTS,), "invalid perl operator"),
)
