"""Regular expressions with the semantics of RE2, which ONNX specifies. They need the package google-re2
(extra ``text``).
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Any

from graphwright.ir.op import InferError

_ONE_CLASS = re.compile(
    r"""(\.|[A-Za-z0-9_ ,;:]|\[([A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_ ,.;:!?'"/@#%])+\])\+?"""
)
"""Patterns of one class of characters, which mean the same to RE2 and to Python: a match is a run of them."""
MISSING = "regular expressions need the package google-re2: pip install 'graphwright[text]'"


@lru_cache(maxsize=256)
def compiled(pattern: str, longest: bool = False) -> Any:
    """``pattern``, compiled by RE2. With ``longest``, a search finds the longest match at a position, as in
    POSIX. A pattern of one class of characters is compiled by Python, which finds matches 20 times as fast.

    Raises InferError if the pattern is invalid, or if RE2 is not installed.
    """
    try:
        import re2  # only models with regular expressions import it
    except ImportError as error:
        raise InferError(MISSING) from error
    if _ONE_CLASS.fullmatch(pattern):
        with suppress(re.error):  # RE2 states the reason
            return re.compile(pattern)
    options = re2.Options()
    options.log_errors, options.longest_match = False, longest
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise InferError(f"pattern {pattern[:80]!r} is not valid Unicode") from error
    except re2.error as error:
        (reason,) = error.args
        message = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise InferError(f"pattern {pattern[:80]!r}: {message[:160]}") from error
