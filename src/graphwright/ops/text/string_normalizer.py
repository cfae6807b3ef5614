"""StringNormalizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, STRING, TensorType
from graphwright.ops.core.checks import need_dtype

CASES: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
_SPECIAL_CASING = ("az", "lt", "tr")
"""Languages with their own case mappings (SpecialCasing of Unicode)."""


@op("StringNormalizer")
class StringNormalizer(Op):
    """Removes ``stopwords`` from a vector [C] or [1, C] of strings, and converts the others to upper or lower
    ``case``.

    If no string remains, the result is [""]. The number of strings is data-dependent. ``locale`` only matters
    to other engines: its case mappings are those of Unicode.
    """

    stopwords: tuple[str, ...] = ()
    case: str = "NONE"
    case_sensitive: bool = False
    locale: str = ""

    def verify(self) -> None:
        if self.case not in CASES:
            raise InferError(f"case_change_action {self.case!r} is not one of {', '.join(CASES)}")

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, {STRING})
        if x.rank not in (1, 2):
            raise at.fail(f"the input is {x.type}; it must be [C] or [1, C]")
        if x.rank == 2:
            at.equal(x.shape[0], 1, "the number of rows")
        count = x.shape[-1]
        if self.stopwords:
            kept: Dim = at.symbols.fresh("kept")
        else:
            kept = at.symbols.larger(count, 1)
        return TensorType(STRING, (kept,) if x.rank == 1 else (1, kept))

    def reference(self, x: Array) -> Array:
        folded = str if self.case_sensitive else str.lower
        stopwords = {folded(word) for word in self.stopwords}
        change = CASES[self.case]
        kept = [change(str(text)) for text in x.ravel() if folded(str(text)) not in stopwords] or [""]
        return np.array(kept, dtype=object).reshape(*x.shape[:-1], -1)


def _import(i: Importer) -> Any:
    case, locale = str(i.attr("case_change_action", "NONE")), str(i.attr("locale", ""))
    if case != "NONE" and locale[:2].lower() in _SPECIAL_CASING and not locale[2:3].isalpha():
        raise i.fail(f"the case mappings of locale {locale!r} are not supported", "use en_US")
    words = tuple(str(word) for word in i.attr("stopwords", ()))
    return i.emit(StringNormalizer(words, case, bool(i.attr("is_case_sensitive", 0)), locale), i.input(0))


StringNormalizer.onnx = {("StringNormalizer", 10): _import}
StringNormalizer.to_onnx = as_onnx(
    "StringNormalizer",
    case_change_action="case",
    is_case_sensitive="case_sensitive",
    locale="locale",
    stopwords="stopwords",
)
_DAYS = arg(STRING, 3, values=("Monday", "tuesday", "monday"))
_N = symbol("N")
StringNormalizer.samples = (
    *(Sample(StringNormalizer(("monday",), case), (_DAYS,)) for case in CASES),
    Sample(StringNormalizer(("monday",), case_sensitive=True), (_DAYS,)),
    Sample(StringNormalizer(("monday", "TUESDAY")), (_DAYS,)),
    Sample(StringNormalizer(case="UPPER"), (arg(STRING, _N),)),
    Sample(StringNormalizer(), (arg(STRING, 1, 4),)),
    Sample(StringNormalizer(("s1",)), (arg(STRING, 1, _N),)),
    Sample(StringNormalizer(), (arg(STRING, 0),)),
    Sample(StringNormalizer(), (arg(F32, 2),), "the input is f32; it must be string"),
    Sample(StringNormalizer(), (arg(STRING, 2, 3),), "the number of rows: 2 and 1 differ"),
    Sample(StringNormalizer(), (arg(STRING),), "it must be [C] or [1, C]"),
    Sample(StringNormalizer(case="TITLE"), (_DAYS,), "is not one of NONE, LOWER, UPPER"),
)
