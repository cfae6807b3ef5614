"""Regular expressions, by the library RE2, whose semantics ONNX names: google-re2, of the extra ``text``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from graphwright.ir.op import InferError

MISSING = "regular expressions need the package google-re2: pip install 'graphwright[text]'"


@lru_cache(maxsize=256)
def compiled(pattern: str, longest: bool = False) -> Any:
    """``pattern``, compiled by RE2; of the matches that begin at a place the ``longest``, or the first tried.

    InferError if RE2 refuses the pattern, or is not installed.
    """
    try:
        import re2  # no other model pays for it
    except ImportError as error:
        raise InferError(MISSING) from error
    options = re2.Options()
    options.log_errors, options.longest_match = False, longest
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise InferError(f"pattern {pattern[:80]!r} is no Unicode text") from error
    except re2.error as error:
        (reason,) = error.args
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise InferError(f"pattern {pattern[:80]!r}: {said[:160]}") from error
