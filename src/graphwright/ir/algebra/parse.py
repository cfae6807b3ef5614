"""Parses printed sizes and constraints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import mul
from typing import Final, NoReturn

from graphwright.ir.algebra.constraints import RELATIONS, Constraint
from graphwright.ir.algebra.expressions import FUNCTIONS, Dim, SymbolError, floordiv, mod, symbol

_OPERATORS: Final[Mapping[str, Callable[[Dim, Dim], Dim]]] = {"*": mul, "/": floordiv, "%": mod}
_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][A-Za-z0-9_]*)|(.))")


def parse_dim(text: str) -> Dim:
    """Parses the result of ``str(dim)``: ``parse_dim("2*N + floordiv(H, 32) - 1")``. Also accepts ``//`` and
    ``%``.
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
        total = _OPERATORS[operator](total, right)
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
    if head not in FUNCTIONS or tail[:1] != ["("]:
        return symbol(head), tail
    operands: list[Dim] = []
    while tail[:1] in (["("], [","]):
        dim, tail = _parse_sum(tail[1:], text)
        operands.append(dim)
    if tail[:1] != [")"] or (head in ("floordiv", "mod") and len(operands) != 2):
        _bad(text)
    return FUNCTIONS[head](*operands), tail[1:]


def parse_constraint(text: str) -> Constraint:
    """Parses a printed constraint, optionally with its node: ``N <= 2*M (node add)``."""
    stated, _, node = text.partition(" (node ")
    relation = next(each for each in RELATIONS if f" {each} " in stated)
    left, right = stated.split(f" {relation} ")
    return Constraint(relation, parse_dim(left), parse_dim(right), node.removesuffix(")"))
