"""Rewrites kernels that only compute with bools to use bytes: a vector has four times as many bytes
as masks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from graphwright.ir.loops.nodes import (
    Apply,
    Buffer,
    Const,
    Kernel,
    Let,
    Load,
    Loop,
    Ref,
    Scalar,
    Statement,
    Store,
    apply,
    minimum,
)
from graphwright.ir.symbols import Dim, Expr
from graphwright.ir.types import BOOL, U8
from graphwright.records import replace

_FUNCTIONS: Final[dict[str, Callable[..., Scalar]]] = {
    "and": lambda a, b: apply("and", a, b),
    "or": lambda a, b: apply("or", a, b),
    "xor": lambda a, b: apply("xor", a, b),
    "ne": lambda a, b: apply("xor", a, b),
    "eq": lambda a, b: apply("xor", apply("xor", a, b), 1),
    "not": lambda a: apply("xor", a, 1),
}
"""Functions on bytes that are 0 or 1, with results 0 or 1."""


class _OtherKind(Exception):
    """Raised for a kernel that has values other than bools, or unsupported functions."""


def on_bytes(kernel: Kernel) -> Kernel:
    """``kernel`` with bytes instead of bools, if it only stores functions of bools; else ``kernel``
    unchanged.
    """
    if any(buffer.dtype != BOOL for buffer in kernel.parameters):
        return kernel
    try:
        body = tuple(map(_statement, kernel.body))
    except _OtherKind:
        return kernel
    return replace(kernel, parameters=tuple(map(_buffer, kernel.parameters)), body=body)


def _buffer(buffer: Buffer) -> Buffer:
    return replace(buffer, dtype=U8)


def _statement(statement: Statement) -> Statement:
    if isinstance(statement, Loop):
        return replace(statement, body=tuple(map(_statement, statement.body)))
    if isinstance(statement, Let):
        return Let(statement.name, _scalar(statement.value))
    if isinstance(statement, Store) and statement.mask is None and _is_affine(statement.index):
        return Store(_buffer(statement.buffer), statement.index, _scalar(statement.value))
    raise _OtherKind


def _scalar(value: Scalar) -> Scalar:
    if isinstance(value, Load) and value.mask is None and _is_affine(value.index):
        return minimum(Load(_buffer(value.buffer), value.index), 1)  # any nonzero byte is true
    if isinstance(value, Const) and value.dtype == BOOL:
        return Const(int(bool(value.value)), U8)
    if isinstance(value, Ref) and value.dtype == BOOL:
        return Ref(value.name, U8)
    if isinstance(value, Apply) and value.function in _FUNCTIONS:
        return _FUNCTIONS[value.function](*map(_scalar, value.operands))
    raise _OtherKind


def _is_affine(index: tuple[Dim | Scalar, ...]) -> bool:
    return all(isinstance(each, int | Expr) for each in index)
