"""The algebra of sizes: integer expressions over named symbols, in canonical form.

The canonical form is a sum of integer multiples of products of atoms, so that equal sizes are the same
object: ``2*(N + 1) is N + N + 2``. Atoms are symbols (sizes, integers >= 0) and functions that a polynomial
cannot express: floordiv, mod, min, max. A constant expression is a plain ``int``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd
from typing import ClassVar, Final, Union
from weakref import WeakValueDictionary

from graphwright.ir.algebra.atoms import Atom, Function, Monomial, Symbol

Dim = Union[int, "Expr"]
Terms = tuple[tuple[Monomial, int], ...]
"""Monomials with coefficients; the monomial of a constant is empty."""

MEMO: Final = 8192
"""Cached results per operation."""

MAX_TERMS: Final = 1024
"""Expressions with more terms, equal ones counted in products, are rejected: they grow exponentially."""


class SymbolError(ValueError):
    """An expression cannot be formed or evaluated (division by zero, unbound symbol, invalid text)."""


class Expr:
    """A canonical, hash-consed, non-constant expression. Build it with operators, :func:`symbol`,
    :func:`minimum`, ...
    """

    __slots__ = ("__weakref__", "_hash", "_names", "_text", "terms")
    terms: Terms
    _hash: int
    _names: frozenset[str] | None
    _text: str
    _interned: ClassVar[WeakValueDictionary[Terms, Expr]] = WeakValueDictionary()

    def __new__(cls, terms: Terms) -> Expr:
        known = cls._interned.get(terms)
        if known is not None:
            return known
        expr = super().__new__(cls)
        expr.terms = terms
        expr._hash = hash(terms)
        expr._names, expr._text = None, ""
        return cls._interned.setdefault(terms, expr)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Expr], tuple[Terms]]:
        return Expr, (self.terms,)

    def __add__(self, other: Dim) -> Dim:
        if isinstance(other, Expr):
            return from_terms([*self.terms, *other.terms])
        return self if other == 0 else self._plus(int(other))

    def _plus(self, number: int) -> Dim:
        """The sum with a constant, which is the last term."""
        *others, (monomial, last) = self.terms
        if monomial:
            _check_count(len(self.terms) + 1)
            return Expr((*self.terms, ((), number)))
        return Expr((*others, ((), last + number)) if last + number else tuple(others))

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, Expr):
            _check_count(len(self.terms) * len(other.terms))
            return from_terms([(_times(m, n), a * b) for m, a in self.terms for n, b in other.terms])
        if other in (0, 1):
            return self if other else 0
        return Expr(tuple([(m, a * int(other)) for m, a in self.terms]))

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    def __str__(self) -> str:
        if not self._text:
            text = " + ".join(_term_text(m, c) for m, c in self.terms)
            self._text = text.replace("+ -", "- ")
        return self._text

    __repr__ = __str__

    @property
    def names(self) -> frozenset[str]:
        """Names of all symbols in it, also inside functions."""
        if self._names is None:
            factors = [atom for monomial, _ in self.terms for atom, _ in monomial]
            inner = [each for atom in factors if isinstance(atom, Function) for each in atom.operands]
            outer = {atom.name for atom in factors if isinstance(atom, Symbol)}
            self._names = frozenset(outer | names_in(*inner))
        return self._names


@lru_cache(maxsize=MEMO)
def symbol(name: str) -> Expr:
    """The symbolic size ``name``."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise SymbolError(f"{name!r} is not a valid symbol: use letters, digits and _")
    return of_atom(Symbol(name))


@lru_cache(maxsize=MEMO)
def floordiv(a: Dim, b: Dim) -> Dim:
    """``a // b``, rounded towards minus infinity. Terms that a constant ``b`` divides are divided
    separately.
    """
    if isinstance(b, int):
        if b == 0:
            raise SymbolError(f"division of {a} by zero")
        if isinstance(a, int):
            return a // b
        if b < 0:
            return floordiv(-a, -b)
        whole, rest = _split_multiples(a, b)
        return whole + _floordiv_rest(rest, b)
    if a == b:
        return 1
    if a == 0:
        return 0
    quotient = _exact_quotient(a, b)
    return quotient if quotient is not None else _function("floordiv", a, b)


@lru_cache(maxsize=MEMO)
def mod(a: Dim, b: Dim) -> Dim:
    """``a - b * (a // b)``; terms that a constant ``b`` divides vanish, and ``mod(x, c)`` is ``x`` if ``b``
    divides ``c``. What is missing to a multiple, ``mod(-N, 4)``, is ``4*floordiv(N + 3, 4) - N``.
    """
    if isinstance(b, int):
        if b == 0:
            raise SymbolError(f"{a} modulo zero")
        if isinstance(a, int):
            return a % b
        if any(_remainder(monomial, b) is not None for monomial, _ in a.terms):
            return mod(total(_without_remainders(a, b)), b)
        rest = _split_multiples(a, abs(b))[1]
        if isinstance(rest, int):
            return rest % b
        if not _is_negative(rest, b):
            return _function("mod", rest, b)
        missing = from_terms([(m, -c % b) for m, c in rest.terms])
        return b * ceildiv(missing, b) - missing  # -x mod b
    if a in (b, 0) or _exact_quotient(a, b) is not None:
        return 0
    return _function("mod", a, b)


def minimum(*dims: Dim) -> Dim:
    """The smallest of ``dims``."""
    return _extremum("min", min, dims)


def maximum(*dims: Dim) -> Dim:
    """The largest of ``dims``."""
    return _extremum("max", max, dims)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded up."""
    return floordiv(a + b - 1, b)


def names_in(*dims: Dim) -> set[str]:
    """Names of the symbols in ``dims``."""
    return {name for dim in dims if isinstance(dim, Expr) for name in dim.names}


def numbers(dims: Iterable[Dim]) -> tuple[int, ...]:
    """``dims`` as ints. Raises TypeError if one is symbolic."""
    result = []
    for dim in dims:
        if not isinstance(dim, int):
            raise TypeError(f"{dim} is not a number")
        result.append(dim)
    return tuple(result)


def total(dims: Iterable[Dim]) -> Dim:
    """The sum of ``dims``; 0 if there are none. Takes time in proportion to their terms: a sum of sums would
    sort the terms again for each. Raises SymbolError beyond :data:`MAX_TERMS`.
    """
    return from_terms([term for dim in dims for term in terms_of(dim)])


def product(dims: Iterable[Dim]) -> Dim:
    """The product of ``dims``; 1 if there are none."""
    return _product(tuple(dims))


@lru_cache(maxsize=MEMO)
def _product(dims: tuple[Dim, ...]) -> Dim:
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return result


def atoms(dim: Dim) -> Iterator[Symbol]:
    """Every symbol in ``dim``, also inside functions, with repetitions."""
    for monomial, _ in terms_of(dim):
        for atom, _power in monomial:
            if isinstance(atom, Symbol):
                yield atom
            else:
                for operand in atom.operands:
                    yield from atoms(operand)


def terms_of(dim: Dim) -> Terms:
    """The terms of ``dim``."""
    if isinstance(dim, Expr):
        return dim.terms
    return (((), int(dim)),) if dim else ()


def from_terms(terms: list[tuple[Monomial, int]]) -> Dim:
    """The sum of ``terms``. Raises SymbolError beyond :data:`MAX_TERMS`."""
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in total.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    _check_count(len(kept))
    if len(kept) > 1:
        kept.sort(key=_sort_key)
    return Expr(tuple(kept))


def _check_count(terms: int) -> None:
    if terms > MAX_TERMS:
        raise SymbolError(f"a size of more than {MAX_TERMS} terms")


def _sort_key(term: tuple[Monomial, int]) -> tuple[bool, str]:
    """Sort key of a term: the constant is last."""
    return _order(term[0])


@lru_cache(maxsize=MEMO)
def _order(monomial: Monomial) -> tuple[bool, str]:
    return not monomial, "*".join(f"{atom}^{power:04}" for atom, power in monomial)


def _times(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    powers: dict[Atom, int] = dict(m)
    for atom, power in n:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def _term_text(monomial: Monomial, coefficient: int) -> str:
    factors = [str(atom) for atom, power in monomial for _ in range(power)]
    if not factors:
        return str(coefficient)
    if coefficient == 1:
        return "*".join(factors)
    return "*".join([str(coefficient), *factors])


def of_atom(atom: Atom) -> Expr:
    """``atom`` as an expression."""
    return Expr(((((atom, 1),), 1),))


def _function(name: str, *operands: Dim) -> Expr:
    return of_atom(Function(name, operands))


def _split_multiples(a: Expr, b: int) -> tuple[Dim, Dim]:
    """``(q, r)`` with ``a == b*q + r`` and every coefficient of ``r`` in ``[0, b)``."""
    whole = from_terms([(m, c // b) for m, c in a.terms])
    rest = from_terms([(m, c % b) for m, c in a.terms])
    return whole, rest


def _without_remainders(a: Expr, b: int) -> Iterator[Dim]:
    """The terms of ``a``, with ``x`` for ``mod(x, c)`` if ``b`` divides ``c``: equal modulo ``b``."""
    for monomial, factor in a.terms:
        dividend = _remainder(monomial, b)
        yield Expr(((monomial, factor),)) if dividend is None else dividend * factor


def _remainder(monomial: Monomial, b: int) -> Dim | None:
    """``x`` if ``monomial`` is ``mod(x, c)`` with a multiple ``c`` of ``b``; else None."""
    if len(monomial) != 1 or monomial[0][1] != 1:
        return None
    atom = monomial[0][0]
    if not isinstance(atom, Function) or atom.name != "mod":
        return None
    dividend, divisor = atom.operands
    return dividend if isinstance(divisor, int) and divisor % b == 0 else None


def _floordiv_rest(rest: Dim, b: int) -> Dim:
    if isinstance(rest, int):
        return rest // b
    common = gcd(b, *(c for m, c in rest.terms if m))
    if common > 1:  # (6x + 3) // 4 == (3x + 1) // 2: the constant's remainder cannot carry
        rest, b = from_terms([(m, c // common) for m, c in rest.terms]), b // common
        return floordiv(rest, b)
    nested = _nested_floordiv(rest) if isinstance(rest, Expr) else None
    if nested is not None:  # (x // a + y) // b == (x + a*y) // (a*b)
        numerator, divisor, others = nested
        return floordiv(numerator + divisor * others, divisor * b)
    return _function("floordiv", rest, b)


def _is_negative(rest: Expr, b: int) -> bool:
    """Whether the coefficients of ``rest``, below ``b``, are smaller if all are taken as negative ones."""
    return all(2 * factor > b > 0 for monomial, factor in rest.terms if monomial)


def _nested_floordiv(expr: Expr) -> tuple[Dim, int, Dim] | None:
    """``(x, a, y)`` if ``expr`` is ``x // a + y`` with a number ``a > 0``, and ``y`` has no such quotient."""
    quotients = [(m, c) for m, c in expr.terms if any(_is_floordiv(atom) for atom, _ in m)]
    if len(quotients) != 1 or quotients[0][1] != 1 or len(quotients[0][0]) != 1:
        return None
    ((atom, power),) = quotients[0][0]
    if power != 1 or not isinstance(atom, Function):
        return None
    numerator, divisor = atom.operands
    if not isinstance(divisor, int) or divisor <= 0:
        return None
    return numerator, divisor, from_terms([term for term in expr.terms if term != quotients[0]])


def _is_floordiv(atom: Atom) -> bool:
    return isinstance(atom, Function) and atom.name == "floordiv"


def _exact_quotient(a: Dim, b: Expr) -> Dim | None:
    """``q`` with ``a == q*b``, by polynomial long division; None if a remainder is left.

    The leading terms are those of the lexicographic order of the powers (Cox, Little and O'Shea, Ideals,
    Varieties, and Algorithms, section 2.3). None also if the quotient has more terms than ``a``.
    """
    if not isinstance(a, Expr):
        return None
    factors = sorted({atom for monomial, _ in (*a.terms, *b.terms) for atom, _ in monomial}, key=str)

    def powers(term: tuple[Monomial, int]) -> list[int]:
        own = dict(term[0])
        return [own.get(atom, 0) for atom in factors]

    divisor = max(b.terms, key=powers)
    rest: Dim = a
    quotient: list[tuple[Monomial, int]] = []
    while rest != 0 and len(quotient) < len(a.terms):
        term = _term_quotient(max(terms_of(rest), key=powers), divisor)
        if term is None:
            return None
        quotient.append(term)
        rest -= from_terms([(_times(term[0], monomial), term[1] * factor) for monomial, factor in b.terms])
    return from_terms(quotient) if rest == 0 else None


def _term_quotient(term: tuple[Monomial, int], divisor: tuple[Monomial, int]) -> tuple[Monomial, int] | None:
    """``term / divisor``, if it is a term with an integer coefficient."""
    powers = dict(term[0])
    for atom, power in divisor[0]:
        powers[atom] = powers.get(atom, 0) - power
    if term[1] % divisor[1] or min(powers.values(), default=0) < 0:
        return None
    return tuple((atom, power) for atom, power in powers.items() if power), term[1] // divisor[1]


def _extremum(name: str, fold: Callable[..., int], dims: tuple[Dim, ...]) -> Dim:
    if Expr not in map(type, dims):
        return fold(dims)
    return _symbolic_extremum(name, fold, dims)


@lru_cache(maxsize=MEMO)
def _symbolic_extremum(name: str, fold: Callable[..., int], dims: tuple[Dim, ...]) -> Dim:
    flat: list[Dim] = []
    for dim in dims:
        inner = dim.terms[0][0][0][0] if isinstance(dim, Expr) and _is_atom(dim) else None
        flat.extend(inner.operands if isinstance(inner, Function) and inner.name == name else [dim])
    groups: dict[Dim, list[int]] = {}  # operands that differ by a constant are comparable
    for dim in flat:
        constant = next((c for m, c in terms_of(dim) if not m), 0)
        groups.setdefault(dim - constant, []).append(constant)
    kept = sorted((base + fold(constants) for base, constants in groups.items()), key=str)
    return kept[0] if len(kept) == 1 else _function(name, *kept)


def _is_atom(expr: Expr) -> bool:
    ((monomial, coefficient), *more) = expr.terms
    return not more and coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1


FUNCTIONS: Final[Mapping[str, Callable[..., Dim]]] = {
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
}
"""Constructor for each function name."""
