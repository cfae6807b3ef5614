"""Sizes of inputs as users give them: numbers, names, ranges and multiples, as objects or text."""

from __future__ import annotations

import operator
import re
from typing import Final, NoReturn

from graphwright.errors import Diagnostic, FeedError
from graphwright.ir.symbols import Dim, Expr, Range, Symbol, SymbolTable, symbol
from graphwright.records import dataclass

LARGEST: Final = 2**48
"""Larger than any array: products of a few sizes still fit in 64 bits."""
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_FORM: Final = re.compile(
    rf"(?:(?P<name>{_NAME})|\?|(?:(?P<ranged>{_NAME})=)?(?P<low>\d*)\.\.(?P<high>\d*))(?:%(?P<multiple>\d+))?",
    re.ASCII,
)
SIZE_FORMS: Final = (
    "a number, a name, ?, a range such as 1..16 or N=1..16, either with %32 for multiples of 32"
)


@dataclass(frozen=True)
class SizeRange:
    """A dynamic dimension: its name, inclusive bounds, and divisor. Users know it as ``graphwright.Dim``.

    Sizes with the same name are equal; without a name, the size keeps the name from the model. ``high`` None
    is unbounded. Raises FeedError if no size satisfies the bounds.
    """

    name: str = ""
    low: int = 0
    high: int | None = None
    multiple: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or (self.name and not re.fullmatch(_NAME, self.name)):
            _refuse(f"{self.name!r} is not a valid name of a size", "use letters, digits and _")
        numbers = (self.low, self.high or 0, self.multiple)
        if not all(type(number) is int and 0 <= number <= LARGEST for number in numbers) or not self.multiple:
            _refuse(f"{self} has a bound that is not a size", f"sizes are whole numbers up to {LARGEST}")
        if not has_sizes(self.low, self.high, self.multiple):
            _refuse(f"no size is {self.words}", "give bounds that contain a multiple")

    def holds(self, size: int) -> bool:
        """Whether ``size`` is allowed."""
        within = self.low <= size and (self.high is None or size <= self.high)
        return within and size % self.multiple == 0

    @property
    def smallest(self) -> int:
        """The smallest allowed size other than 0; 0 if there is none."""
        least = -(-max(self.low, 1) // self.multiple) * self.multiple
        return least if self.holds(least) else 0

    @property
    def largest(self) -> int | None:
        """The largest allowed size; None if unbounded."""
        return None if self.high is None else self.high // self.multiple * self.multiple

    @property
    def words(self) -> str:
        """The bounds in words: ``64 to 2048 in steps of 32``."""
        return span_text(self.low, self.high, self.multiple)

    def __str__(self) -> str:
        """Text that :func:`parse_size` reads."""
        bounds = f"{self.low}..{'' if self.high is None else self.high}"
        bounds = "" if (self.low, self.high) == (0, None) else bounds
        divisor = f"%{self.multiple}" if self.multiple != 1 else ""
        shown = f"{self.name}={bounds}" if self.name and bounds else self.name or bounds
        return f"{shown or '?'}{divisor}"


Size = int | str | range | SizeRange | None
"""A size as users give it. Text is read by :func:`parse_size`; a ``range`` excludes its end, as usual."""


def has_sizes(low: int, high: int | None, multiple: int) -> bool:
    """Whether the bounds contain a multiple."""
    return high is None or -(-low // multiple) <= high // multiple


def span_text(low: int, high: int | None, multiple: int = 1) -> str:
    """Bounds in words."""
    if multiple != 1 and (low, high) == (0, None):
        return f"a multiple of {multiple}"
    bounds = f"at least {low}" if high is None else f"{low} to {high}"
    return bounds + (f" in steps of {multiple}" if multiple != 1 else "")


def read_size(given: Size) -> int | SizeRange | None:
    """A number, a dynamic dimension, or None for the size of the model. Raises FeedError."""
    if given is None or isinstance(given, SizeRange):
        return given
    if isinstance(given, str):
        return parse_size(given)
    if isinstance(given, range):
        return _of_range(given)
    try:
        return operator.index(given)
    except TypeError:
        _refuse(f"{given!r} is not a size", f"give {SIZE_FORMS}")


def parse_size(text: str) -> int | SizeRange | None:
    """Reads ``7``, ``N``, ``?``, ``1..16``, ``N=1..16``, ``..2048``, ``64..``, ``H=64..2048%32``, ``H%32`` or
    ``?%32``. Raises FeedError.
    """
    if text == "?":
        return None
    if text.isascii() and text.isdecimal():
        return _number(text, text)
    form = _FORM.fullmatch(text)
    if not form:
        _refuse(f"{text[:80]!r} is not a size", f"give {SIZE_FORMS}")
    low, high, multiple = (form[part] for part in ("low", "high", "multiple"))
    return SizeRange(
        form["name"] or form["ranged"] or "",
        _number(low, text) if low else 0,
        _number(high, text) if high else None,
        _number(multiple, text) if multiple else 1,
    )


def _of_range(given: range) -> SizeRange:
    if not len(given):
        _refuse(f"{given} is empty", "the end is excluded: range(1, 17) is 1 to 16")
    first, step = given.start, given.step
    if step < 1 or first % step:
        _refuse(
            f"{given} does not consist of multiples of its step {step}", "start at a multiple of the step"
        )
    return SizeRange("", first, given[-1], step)


def _number(text: str, whole: str) -> int:
    if len(text) > len(str(LARGEST)) or int(text) > LARGEST:
        _refuse(f"{whole[:80]!r} is too large for a size", f"sizes are at most {LARGEST}")
    return int(text)


def _refuse(message: str, hint: str) -> NoReturn:
    raise FeedError(Diagnostic("size", message, hint=hint))


def scaled_symbol(dim: Dim) -> tuple[str, int] | None:
    """``("H", 32)`` if ``dim`` is ``32*H``, else None: only in such dims does a size determine the symbol."""
    if not isinstance(dim, Expr) or len(dim.terms) != 1:
        return None
    ((monomial, scale),) = dim.terms
    if len(monomial) != 1 or monomial[0][1] != 1 or scale < 1:
        return None
    atom = monomial[0][0]
    return (atom.name, scale) if isinstance(atom, Symbol) else None


def span_of(dim: Dim, table: SymbolTable) -> SizeRange:
    """The sizes that ``dim`` can have, according to the table."""
    bounds, scaled = table.range_of(dim), scaled_symbol(dim)
    name, scale = scaled or ("", 1)
    multiple = scale * table.multiples.get(name, 1)
    return SizeRange("", max(bounds.low, 0), bounds.high, multiple)


def symbol_for_range(table: SymbolTable, size: SizeRange) -> Dim:
    """A dim for the named ``size``: a number if only one is allowed; ``32*H_32`` for multiples of 32, so that
    divisibility is visible to the algebra.
    """
    low = -(-size.low // size.multiple)
    high = None if size.high is None else size.high // size.multiple
    if low == high:
        return low * size.multiple
    name = size.name if size.multiple == 1 else str(table.fresh(f"{size.name}_{size.multiple}"))
    table.ranges[name] = Range(low, high)
    return size.multiple * symbol(name)
