"""Rewrites the operands of functions in a kernel."""

from __future__ import annotations

from collections.abc import Callable

from graphwright.ir.loops.nodes import (
    Accumulate,
    Apply,
    Bits,
    Cast,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Scalar,
    Statement,
    Store,
)
from graphwright.records import replace


def rewrite_operands(kernel: Kernel, rewrite: Callable[[str, Scalar], Scalar]) -> Kernel:
    """``kernel`` with ``rewrite(function, operand)`` instead of each operand of each function, from the
    inside out. An expression that is used several times is rewritten once, and stays one object.
    """
    rewriter = _Rewriter(rewrite)
    return replace(kernel, body=tuple(map(rewriter.statement, kernel.body)))


class _Rewriter:
    def __init__(self, rewrite: Callable[[str, Scalar], Scalar]) -> None:
        self._rewrite = rewrite
        self._done: dict[int, tuple[Scalar, Scalar]] = {}
        """The rewritten form of each expression, by identity; the expression is kept alive with it."""

    def statement(self, statement: Statement) -> Statement:
        match statement:
            case Loop(body=body):
                return replace(statement, body=tuple(map(self.statement, body)))
            case Let(value=value):
                return replace(statement, value=self._scalar(value))
            case Store(index=index, value=value, mask=mask) | Accumulate(index=index, value=value, mask=mask):
                return replace(
                    statement, index=self._indices(index), value=self._scalar(value), mask=self._mask(mask)
                )
        return statement

    def _scalar(self, scalar: Scalar) -> Scalar:
        if id(scalar) not in self._done:
            self._done[id(scalar)] = scalar, self._rewritten(scalar)
        return self._done[id(scalar)][1]

    def _rewritten(self, scalar: Scalar) -> Scalar:
        match scalar:
            case Apply(function=function, operands=operands):
                inner = (self._rewrite(function, self._scalar(operand)) for operand in operands)
                return replace(scalar, operands=tuple(inner))
            case Cast(operand=operand) | Bits(operand=operand):
                return replace(scalar, operand=self._scalar(operand))
            case Load(index=index, mask=mask):
                return replace(scalar, index=self._indices(index), mask=self._mask(mask))
        return scalar

    def _indices(self, index: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(self._scalar(i) if isinstance(i, Scalar) else i for i in index)

    def _mask(self, mask: Scalar | None) -> Scalar | None:
        return None if mask is None else self._scalar(mask)
