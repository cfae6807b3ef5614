"""Rebuilds expressions of kernels with other operands."""

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


def map_children(value: Scalar, rewrite: Callable[[Scalar], Scalar]) -> Scalar:
    """``value`` with ``rewrite(child)`` instead of each operand, gather index and mask."""
    match value:
        case Apply(function, operands, dtype):
            return Apply(function, tuple(map(rewrite, operands)), dtype)
        case Cast(operand, dtype):
            return Cast(rewrite(operand), dtype)
        case Bits(operand, dtype):
            return Bits(rewrite(operand), dtype)
        case Load(buffer, index, mask, other):
            return Load(buffer, _indices(index, rewrite), _mask(mask, rewrite), other)
    return value


def _indices(index: tuple[Index, ...], rewrite: Callable[[Scalar], Scalar]) -> tuple[Index, ...]:
    return tuple(rewrite(i) if isinstance(i, Scalar) else i for i in index)


def _mask(mask: Scalar | None, rewrite: Callable[[Scalar], Scalar]) -> Scalar | None:
    return None if mask is None else rewrite(mask)


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
                    statement,
                    index=_indices(index, self._scalar),
                    value=self._scalar(value),
                    mask=_mask(mask, self._scalar),
                )
        return statement

    def _scalar(self, scalar: Scalar) -> Scalar:
        if id(scalar) not in self._done:
            self._done[id(scalar)] = scalar, self._rewritten(scalar)
        return self._done[id(scalar)][1]

    def _rewritten(self, scalar: Scalar) -> Scalar:
        if isinstance(scalar, Apply):
            function = scalar.function
            return map_children(scalar, lambda operand: self._rewrite(function, self._scalar(operand)))
        return map_children(scalar, self._scalar)
