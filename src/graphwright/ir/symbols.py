"""Sizes that are not known yet: a small algebra of integer expressions over named symbols.

An expression is kept in one canonical form, a sum of integer multiples of products of atoms, so that equal
sizes are the same object: ``2*(N + 1) is N + N + 2``. Atoms are symbols (sizes: integers >= 0) and the
functions that a polynomial cannot express: floordiv, mod, min, max. A constant expression is a plain ``int``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd, prod
from typing import ClassVar, Final, NoReturn, Union
from weakref import WeakValueDictionary

from graphwright.records import dataclass, field, replace

Dim = Union[int, "Expr"]

MEMO: Final = 8192
"""Results of an operation that are kept."""

MAX_TERMS: Final = 256
"""An expression beyond this many terms is refused: no model needs it, and products of sums would grow without
end.
"""


class SymbolError(ValueError):
    """An expression cannot be formed or evaluated (division by zero, unbound symbol, bad text)."""


@dataclass(frozen=True)
class Symbol:
    """A named size, an integer >= 0; its range and divisibility are kept by the module's
    :class:`SymbolTable`.
    """

    name: str

    def __str__(self) -> str:
        return self.name


class Function:
    """``floordiv``, ``mod``, ``min`` or ``max`` of canonical operands. Hash and text are made once."""

    __slots__ = ("_hash", "_text", "name", "operands")

    def __init__(self, name: str, operands: tuple[Dim, ...]) -> None:
        self.name, self.operands = name, operands
        self._hash = hash((name, operands))
        self._text = ""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Function) or self._hash != other._hash:
            return False
        return self.name == other.name and self.operands == other.operands

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Function], tuple[str, tuple[Dim, ...]]]:
        return Function, (self.name, self.operands)  # hashes of text differ between processes

    def __str__(self) -> str:
        self._text = self._text or f"{self.name}({', '.join(map(str, self.operands))})"
        return self._text

    __repr__ = __str__


Atom = Symbol | Function
Monomial = tuple[tuple[Atom, int], ...]
"""Powers of atoms, sorted by their text; the empty product is 1."""


class Expr:
    """A canonical, hash-consed, non-constant expression; build it with operators, :func:`symbol`,
    :func:`minimum`, ...
    """

    __slots__ = ("__weakref__", "_hash", "_names", "_text", "terms")
    terms: tuple[tuple[Monomial, int], ...]
    _hash: int
    _names: frozenset[str] | None
    _text: str
    _interned: ClassVar[WeakValueDictionary[tuple[tuple[Monomial, int], ...], Expr]] = WeakValueDictionary()

    def __new__(cls, terms: tuple[tuple[Monomial, int], ...]) -> Expr:
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

    def __reduce__(self) -> tuple[Callable[[str], Dim], tuple[str]]:
        return parse_dim, (str(self),)

    def __add__(self, other: Dim) -> Dim:
        if not isinstance(other, Expr) and other == 0:
            return self
        return _from_terms([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    def __mul__(self, other: Dim) -> Dim:
        if not isinstance(other, Expr) and other == 1:
            return self
        return _from_terms([(_times(m, n), a * b) for m, a in self.terms for n, b in _terms(other)])

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
        """Of the symbols in it, nested ones included."""
        if self._names is None:
            factors = [atom for monomial, _ in self.terms for atom, _ in monomial]
            inner = [each for atom in factors if isinstance(atom, Function) for each in atom.operands]
            outer = {atom.name for atom in factors if isinstance(atom, Symbol)}
            self._names = frozenset(outer | names_in(*inner))
        return self._names


def symbol(name: str) -> Expr:
    """The size called ``name``."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise SymbolError(f"{name!r} is not a symbol's name: use letters, digits and _")
    return Expr(((((Symbol(name), 1),), 1),))


@lru_cache(maxsize=MEMO)
def floordiv(a: Dim, b: Dim) -> Dim:
    """``a // b`` rounded towards minus infinity; multiples of a constant ``b`` leave the quotient."""
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
    """``a - b * (a // b)``; multiples of a constant ``b`` vanish."""
    if isinstance(b, int):
        if b == 0:
            raise SymbolError(f"{a} modulo zero")
        if isinstance(a, int):
            return a % b
        rest = _split_multiples(a, abs(b))[1]
        return rest % b if isinstance(rest, int) else _function("mod", rest, b)
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
    """``dims`` as ints; raises TypeError where one is not known."""
    result = []
    for dim in dims:
        if not isinstance(dim, int):
            raise TypeError(f"{dim} is not a number")
        result.append(dim)
    return tuple(result)


def product(dims: tuple[Dim, ...] | list[Dim]) -> Dim:
    """The product of ``dims``; 1 when there are none."""
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return result


def atoms(dim: Dim) -> Iterator[Symbol]:
    """Every symbol in ``dim``, nested ones included, with repetitions."""
    for monomial, _ in _terms(dim):
        for atom, _power in monomial:
            if isinstance(atom, Symbol):
                yield atom
            else:
                for operand in atom.operands:
                    yield from atoms(operand)


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """``dim`` with the symbols named in ``values`` replaced, in canonical form again."""
    return _substituted(dim, values, {}) if values else dim


def _substituted(dim: Dim, values: Mapping[str, Dim], made: dict[Expr, Dim]) -> Dim:
    """:func:`substitute`; ``made`` keeps what inner expressions, which often repeat, became."""
    if isinstance(dim, int) or dim.names.isdisjoint(values):
        return dim
    if dim in made:
        return made[dim]
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
        for atom, power in monomial:
            if isinstance(atom, Symbol):
                value = values.get(atom.name)
                factor: Dim = Expr((((((atom, 1),), 1)),)) if value is None else value
            else:
                factor = _BUILD[atom.name](*(_substituted(each, values, made) for each in atom.operands))
            term = term * (factor if power == 1 else product([factor] * power))
        total = total + term
    made[dim] = total
    return total


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The number that ``dim`` is when its symbols have ``values``; raises :class:`SymbolError` if one is
    missing.
    """
    result = substitute(dim, values)
    if isinstance(result, int):
        return result
    missing = sorted(names_in(result))
    raise SymbolError(f"{dim} has no value: {', '.join(missing)} unbound")


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, Expr):
        return dim.terms
    return (((), int(dim)),) if dim else ()


def _from_terms(terms: list[tuple[Monomial, int]]) -> Dim:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in total.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    if len(kept) > MAX_TERMS:
        raise SymbolError(f"a size of more than {MAX_TERMS} terms")
    return Expr(tuple(sorted(kept, key=lambda term: _order(term[0]))))


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


def _function(name: str, *operands: Dim) -> Expr:
    return Expr(((((Function(name, operands), 1),), 1),))


def _split_multiples(a: Expr, b: int) -> tuple[Dim, Dim]:
    """``(q, r)`` with ``a == b*q + r`` and every coefficient of ``r`` in ``[0, b)``."""
    whole = _from_terms([(m, c // b) for m, c in a.terms])
    rest = _from_terms([(m, c % b) for m, c in a.terms])
    return whole, rest


def _floordiv_rest(rest: Dim, b: int) -> Dim:
    if isinstance(rest, int):
        return rest // b
    common = gcd(b, *(c for m, c in rest.terms if m))
    if common > 1:  # (6x + 3) // 4 == (3x + 1) // 2: the constant's remainder cannot carry
        rest, b = _from_terms([(m, c // common) for m, c in rest.terms]), b // common
        return floordiv(rest, b)
    nested = _nested_floordiv(rest) if isinstance(rest, Expr) else None
    if nested is not None:  # (x // a + c) // b == (x + a*c) // (a*b)
        numerator, divisor, constant = nested
        return floordiv(numerator + divisor * constant, divisor * b)
    return _function("floordiv", rest, b)


def _nested_floordiv(expr: Expr) -> tuple[Dim, int, int] | None:
    """``(x, a, c)`` if ``expr`` is ``x // a + c`` with numbers ``a > 0`` and ``c``."""
    constant = next((c for m, c in expr.terms if not m), 0)
    terms = [(m, c) for m, c in expr.terms if m]
    if len(terms) != 1 or terms[0][1] != 1 or len(terms[0][0]) != 1:
        return None
    ((atom, power),) = terms[0][0]
    if power != 1 or not isinstance(atom, Function) or atom.name != "floordiv":
        return None
    numerator, divisor = atom.operands
    return (numerator, divisor, constant) if isinstance(divisor, int) and divisor > 0 else None


def _exact_quotient(a: Dim, b: Expr) -> Dim | None:
    """``q`` with ``a == q*b``, when ``b`` is one term that divides every term of ``a``."""
    if len(b.terms) != 1 or not isinstance(a, Expr):
        return None
    ((divisor, scale),) = b.terms
    quotient: list[tuple[Monomial, int]] = []
    for monomial, coefficient in a.terms:
        powers = dict(monomial)
        for atom, power in divisor:
            if powers.get(atom, 0) < power:
                return None
            powers[atom] -= power
        if coefficient % scale:
            return None
        quotient.append(
            (tuple((atom, power) for atom, power in powers.items() if power), coefficient // scale)
        )
    return _from_terms(quotient)


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
        constant = next((c for m, c in _terms(dim) if not m), 0)
        groups.setdefault(dim - constant, []).append(constant)
    kept = sorted((base + fold(constants) for base, constants in groups.items()), key=str)
    return kept[0] if len(kept) == 1 else _function(name, *kept)


def _is_atom(expr: Expr) -> bool:
    ((monomial, coefficient), *more) = expr.terms
    return not more and coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1


_BUILD: Final[dict[str, Callable[..., Dim]]] = {
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
}


@dataclass(frozen=True)
class Range:
    """Integers from ``low`` to ``high``, both included; ``high`` None is unbounded."""

    low: int = 0
    high: int | None = None


RELATIONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "==": lambda left, right: left == right,
    "<=": lambda left, right: left <= right,
    "!=": lambda left, right: left != right,
}


@dataclass(frozen=True)
class Constraint:
    """``left == right``, ``left <= right`` or ``left != right``: what ``node`` demands or assumes of sizes
    that inference could not prove; checked when a plan is made.
    """

    relation: str
    left: Dim
    right: Dim
    node: str = field(compare=False)
    """The first node that needs it."""

    @property
    def names(self) -> set[str]:
        """Of the symbols that it speaks of."""
        return names_in(self.left, self.right)

    def broken_by(self, sizes: Mapping[str, int]) -> str | None:
        """How ``sizes`` break it; None where they do not, or do not make numbers of both sides."""
        try:
            left, right = evaluate(self.left, sizes), evaluate(self.right, sizes)
        except SymbolError:
            return None
        holds = RELATIONS[self.relation](left, right)
        return None if holds else f"these inputs do not fit the model: {self} fails with {left} and {right}"

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


@lru_cache(maxsize=1024)
def lower_bound(constraint: Constraint) -> tuple[str, int] | None:
    """The symbol and the number that it is not less than, where a constraint says no more than that."""
    terms = _terms(constraint.right - constraint.left)
    (monomial, factor), constant = terms[0] if terms else ((), 0), sum(c for m, c in terms if not m)
    if constraint.relation != "<=" or factor < 1 or len(monomial) != 1 or len(terms) > 1 + bool(constant):
        return None
    ((atom, power),) = monomial
    return (atom.name, -(constant // factor)) if isinstance(atom, Symbol) and power == 1 else None


def parse_constraint(text: str) -> Constraint:
    """What a constraint prints, and behind it its node if that is known: ``N <= 2*M (node add)``."""
    stated, _, node = text.partition(" (node ")
    relation = next(each for each in RELATIONS if f" {each} " in stated)
    left, right = stated.split(f" {relation} ")
    return Constraint(relation, parse_dim(left), parse_dim(right), node.removesuffix(")"))


@dataclass
class SymbolTable:
    """What a module knows of its symbols: ranges, divisibility, and the constraints that its shapes rest on.

    ``constraints`` are demands: sizes that break one do not fit the model. ``guards`` are assumptions of this
    form of the module: sizes that break one fit the model, which is compiled again for them.
    """

    ranges: dict[str, Range] = field(default_factory=dict)
    multiples: dict[str, int] = field(default_factory=dict)
    constraints: dict[Constraint, None] = field(default_factory=dict)
    guards: dict[Constraint, None] = field(default_factory=dict)
    assumable: frozenset[str] | None = frozenset()
    """Symbols of which inference may assume what it cannot prove; None is all of them."""
    undecided: bool = False
    """Whether inference left a size open, or a rank, that an assumption would have decided."""
    demands_all: bool = False
    """Whether there is no other form of the module for sizes that break a guard, so that what is assumed has
    to be demanded."""

    def assume_nothing(self) -> None:
        """Let the module be general again, for inference to find what it leaves open."""
        self.guards, self.assumable, self.undecided, self.demands_all = {}, frozenset(), False, False

    def copy(self) -> SymbolTable:
        """A table of its own with the same content."""
        return replace(
            self,
            ranges=dict(self.ranges),
            multiples=dict(self.multiples),
            constraints=dict(self.constraints),
            guards=dict(self.guards),
        )

    def fresh(self, hint: str = "s") -> Expr:
        """A symbol not used before, with the default range."""
        stem = re.sub(r"[^A-Za-z0-9_]", "_", hint) or "s"
        stem = stem if not stem[0].isdigit() else f"s{stem}"
        name, count = stem, 0
        while name in self.ranges:
            count += 1
            name = f"{stem}_{count}"
        self.ranges[name] = Range()
        return symbol(name)

    def range_of(self, dim: Dim) -> Range:
        """Bounds of ``dim`` by interval arithmetic, from the ranges of symbols and the demands on each."""
        if isinstance(dim, int):
            return Range(dim, dim)
        low, high = 0, 0
        unbounded_below = unbounded_above = False
        for monomial, coefficient in dim.terms:
            bounds = [self._atom_range(atom) for atom, power in monomial for _ in range(power)]
            if any(b.low < 0 for b in bounds):
                unbounded_below = unbounded_above = True
                continue
            bottom = prod(b.low for b in bounds)
            top = None if any(b.high is None for b in bounds) else prod(b.high or 0 for b in bounds)
            if coefficient > 0:
                low += coefficient * bottom
                unbounded_above |= top is None
                high += coefficient * (top or 0)
            else:
                high += coefficient * bottom
                unbounded_below |= top is None
                low += coefficient * (top or 0)
        return Range(-(2**63) if unbounded_below else low, None if unbounded_above else high)

    def _atom_range(self, atom: Atom) -> Range:
        if isinstance(atom, Symbol):
            known = self.ranges.get(atom.name, Range())
            bounds = filter(None, map(lower_bound, self.constraints)) if self.constraints else ()
            demanded = max((low for name, low in bounds if name == atom.name), default=0)
            return Range(demanded, known.high) if demanded > known.low else known
        parts = [self.range_of(operand) for operand in atom.operands]
        lows, highs = [p.low for p in parts], [p.high for p in parts]
        if atom.name == "min":
            return Range(min(lows), min((h for h in highs if h is not None), default=None))
        if atom.name == "max":
            return Range(max(lows), None if None in highs else max(h for h in highs if h is not None))
        divisor = atom.operands[1]
        if not isinstance(divisor, int) or divisor <= 0:
            return Range(-(2**63), None)
        if atom.name == "mod":
            return Range(0, divisor - 1)
        return Range(lows[0] // divisor, None if highs[0] is None else highs[0] // divisor)

    def proves_equal(self, a: Dim, b: Dim) -> bool:
        """Whether ``a == b`` for all sizes, or follows from the equalities that are demanded or assumed."""
        if a == b:
            return True
        equalities = [c for c in (*self.constraints, *self.guards) if c.relation == "=="]
        return bool(equalities) and follows(a, b, equalities)

    def refutes_equal(self, a: Dim, b: Dim) -> bool:
        """Whether ``a == b`` for no sizes within the ranges."""
        difference = self.range_of(a - b)
        return difference.low > 0 or (difference.high is not None and difference.high < 0)

    def proves_at_least(self, dim: Dim, bound: int) -> bool:
        """Whether ``dim >= bound`` for all sizes within the ranges."""
        return self.range_of(dim).low >= bound

    def demand(self, relation: str, left: Dim, right: Dim, node: str) -> None:
        """Record a constraint that could not be proved; the plan of each concrete shape checks it."""
        self.constraints.setdefault(Constraint(relation, left, right, node))

    def assume(self, relation: str, left: Dim, right: Dim, node: str) -> bool:
        """Record a guard if its symbols are assumable; whether they are."""
        guard = Constraint(relation, left, right, node)
        if self.assumable is not None and not guard.names <= self.assumable:
            self.undecided = True
            return False
        (self.constraints if self.demands_all else self.guards).setdefault(guard)
        return True


def follows(a: Dim, b: Dim, equalities: Iterable[Constraint]) -> bool:
    """Whether ``a == b`` follows from ``equalities``: each is solved for one of its symbols, which is
    eliminated (Gauss, over the integers); one without such a symbol serves as it stands.
    """
    solved, unsolved = _eliminated(tuple(equalities))
    rest = substitute(a - b, solved)
    return rest == 0 or any(rest in (dim, -dim) for dim in unsolved)


@lru_cache(maxsize=64)
def _eliminated(equalities: tuple[Constraint, ...]) -> tuple[Mapping[str, Dim], tuple[Dim, ...]]:
    """What each symbol that an equality is solved for is, and what else is 0; neither has such a symbol."""
    solved: dict[str, Dim] = {}
    unsolved: list[Dim] = []
    for equality in equalities:
        difference = substitute(equality.left - equality.right, solved)
        name, value = _solved(difference)
        if name is None:
            unsolved.append(difference)
            continue
        solved = {known: substitute(dim, {name: value}) for known, dim in solved.items()} | {name: value}
    return solved, tuple(substitute(dim, solved) for dim in unsolved)


def _solved(difference: Dim) -> tuple[str | None, Dim]:
    """A symbol and what it is where ``difference`` is 0; None where that is no sum without it."""
    for monomial, coefficient in reversed(_terms(difference)):
        if abs(coefficient) != 1 or len(monomial) != 1 or monomial[0][1] != 1:
            continue
        atom = monomial[0][0]
        rest = difference - Expr(((monomial, coefficient),))
        if isinstance(atom, Symbol) and atom.name not in names_in(rest):
            return atom.name, rest * -coefficient
    return None, 0


_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][A-Za-z0-9_]*)|(.))")


def parse_dim(text: str) -> Dim:
    """Read what ``str(dim)`` wrote: ``parse_dim("2*N + floordiv(H, 32) - 1")``. ``//`` and ``%`` are taken as
    well.
    """
    tokens = [(m[1] or m[2] or m[3]) for m in _TOKEN.finditer(text) if m[0].strip()]
    dim, rest = _parse_sum(tokens, text)
    if rest:
        _bad(text)
    return dim


def _bad(text: str) -> NoReturn:
    raise SymbolError(
        f"{text!r} is not a size: expected integers, names, + - * // %, floordiv, mod, min, max"
    )


def _parse_sum(tokens: list[str], text: str) -> tuple[Dim, list[str]]:
    total, tokens = _parse_product(tokens, text)
    while tokens and tokens[0] in "+-":
        right, rest = _parse_product(tokens[1:], text)
        total = total + right if tokens[0] == "+" else total - right
        tokens = rest
    return total, tokens


def _parse_product(tokens: list[str], text: str) -> tuple[Dim, list[str]]:
    total, tokens = _parse_atom(tokens, text)
    while tokens and tokens[0] in "*/%":
        operator = tokens[0]
        tokens = tokens[1:]
        if operator == "/":
            if tokens[:1] != ["/"]:
                _bad(text)
            tokens = tokens[1:]
        right, tokens = _parse_atom(tokens, text)
        total = (
            total * right
            if operator == "*"
            else floordiv(total, right)
            if operator == "/"
            else mod(total, right)
        )
    return total, tokens


def _parse_atom(tokens: list[str], text: str) -> tuple[Dim, list[str]]:
    if not tokens:
        _bad(text)
    head, tail = tokens[0], tokens[1:]
    if head == "-":
        dim, tail = _parse_atom(tail, text)
        return -dim, tail
    if head.isdigit():
        return int(head), tail
    if head == "(":
        dim, tail = _parse_sum(tail, text)
        return (dim, tail[1:]) if tail[:1] == [")"] else _bad(text)
    if head not in _BUILD or tail[:1] != ["("]:
        return symbol(head), tail
    operands: list[Dim] = []
    while tail[:1] in (["("], [","]):
        dim, tail = _parse_sum(tail[1:], text)
        operands.append(dim)
    if tail[:1] != [")"] or (head in ("floordiv", "mod") and len(operands) != 2):
        _bad(text)
    return _BUILD[head](*operands), tail[1:]
