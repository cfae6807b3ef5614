"""Elementwise ops of each dtype, with and without broadcasting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.op_cases.case import Case, Operand, c, one, w, x

_F32 = (1, 64, 56, 56)
_POSITIVE: Final[Mapping[str, Any]] = {"low": 0.01, "high": 4.0}
_UNIT: Final[Mapping[str, Any]] = {"low": -0.99, "high": 0.99}
_NUMBERS: Final[Mapping[str, Any]] = {"low": 1, "high": 100}


def _unary(op: str, domain: Mapping[str, Any] | None = None, **attributes: Any) -> Case:
    return one(op.lower(), op, x(*_F32, **(domain or {})), **attributes)


def _binary(name: str, op: str, a: Operand, b: Operand, **attributes: Any) -> Case:
    return one(name, op, a, b, **attributes)


def _integers(op: str, dtype: str, title: str, **attributes: Any) -> Case:
    operands = [x(200_000, dtype=dtype, **_NUMBERS) for _ in range(2)]
    return one(f"{op.lower()} {title}", op, *operands, **attributes)


CASES = (
    *(_unary(op) for op in ("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Sin", "Cos", "Floor")),
    *(_unary(op) for op in ("Round", "Sign", "Softplus", "Softsign", "Elu", "Selu", "Celu", "LeakyRelu")),
    *(_unary(op) for op in ("HardSigmoid", "HardSwish", "Mish", "ThresholdedRelu", "IsNaN", "Atan", "Sinh")),
    *(_unary(op) for op in ("Cosh", "Asinh", "Ceil")),
    *(_unary(op, _POSITIVE) for op in ("Sqrt", "Log", "Reciprocal")),
    *(_unary(op, _UNIT) for op in ("Asin", "Acos", "Atanh", "Tan")),
    _unary("Acosh", {"low": 1.0, "high": 9.0}),
    _unary("Gelu"),
    one("gelu tanh", "Gelu", x(*_F32), approximate="tanh"),
    one("clip", "Clip", x(*_F32), c(0, "f4"), c(6, "f4")),
    one("prelu", "PRelu", x(*_F32), w(64, 1, 1)),
    *(_binary(op.lower(), op, x(*_F32), x(*_F32)) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    _binary("add scalar", "Add", x(*_F32), c(2, "f4")),
    _binary("add channels", "Add", x(*_F32), x(64, 1, 1)),
    _binary("add rows", "Add", x(512, 768), x(768)),
    _binary("add columns", "Add", x(512, 768), x(512, 1)),
    _binary("add row and column", "Add", x(512, 1), x(1, 768)),
    _binary("add 4096", "Add", x(4096), x(4096)),
    _binary("add 4M", "Add", x(4_000_000), x(4_000_000)),
    _binary("add 16M", "Add", x(16_000_000), x(16_000_000)),
    _binary("mul gate", "Mul", x(1, 96, 56, 56), x(1, 96, 1, 1)),
    _binary("pow 2", "Pow", x(*_F32), c(2, "f4")),
    _binary("pow 3", "Pow", x(*_F32), c(3, "f4")),
    _binary("pow of inputs", "Pow", x(*_F32, **_POSITIVE), x(*_F32)),
    _binary("pow 0.5", "Pow", x(*_F32, **_POSITIVE), c(0.5, "f4")),
    _binary("mod f32", "Mod", x(*_F32), x(*_F32, **_POSITIVE), fmod=1),
    *(_integers(op, "i8", "i64") for op in ("Add", "Mul", "Div", "Mod")),
    *(_integers(op, "i4", "i32") for op in ("Add", "Mul", "Div", "Mod")),
    _binary("div i64 by 16", "Div", x(200_000, dtype="i8", low=0, high=1000), c(16)),
    _binary("mod i64 by 80", "Mod", x(200_000, dtype="i8", low=0, high=1000), c(80)),
    _binary("add u8", "Add", x(400_000, dtype="u1", low=0, high=99), x(400_000, dtype="u1", low=0, high=99)),
    _binary("add f16", "Add", x(200_000, dtype="f2"), x(200_000, dtype="f2")),
    _binary("mul f64", "Mul", x(200_000, dtype="f8"), x(200_000, dtype="f8")),
    one("exp f64", "Exp", x(200_000, dtype="f8")),
    _binary("less", "Less", x(*_F32), x(*_F32)),
    _binary("greater or equal", "GreaterOrEqual", x(*_F32), c(0, "f4")),
    _binary("equal i64", "Equal", x(200_000, dtype="i8", low=0, high=9), c(3)),
    _binary("and", "And", x(400_000, dtype="?", low=0, high=2), x(400_000, dtype="?", low=0, high=2)),
    one("not", "Not", x(400_000, dtype="?", low=0, high=2)),
    _binary("bit and", "BitwiseAnd", x(200_000, dtype="i4", low=0, high=99), c(7, "i4")),
    _binary("shift", "BitShift", x(200_000, dtype="u4", low=0, high=99), c(3, "u4"), direction="LEFT"),
    one("where", "Where", x(*_F32, dtype="?", low=0, high=2), x(*_F32), x(*_F32)),
    one("where mask", "Where", x(1, 1, 128, 128, dtype="?", low=0, high=2), x(1, 12, 128, 128),
        c(-1e9, "f4")),
    one("sum of 4", "Sum", *(x(*_F32) for _ in range(4))),
    one("mean of 3", "Mean", *(x(*_F32) for _ in range(3))),
    one("cast f32 to f16", "Cast", x(*_F32), to=10),
    one("cast f16 to f32", "Cast", x(*_F32, dtype="f2"), to=1),
    one("cast f32 to i64", "Cast", x(*_F32, low=-99, high=99), to=7),
    one("cast i64 to f32", "Cast", x(200_000, dtype="i8", low=0, high=99), to=1),
    one("cast u8 to f32", "Cast", x(1, 480, 640, 3, dtype="u1", low=0, high=256), to=1),
    one("cast f32 to u8", "Cast", x(1, 480, 640, 3, low=0, high=255), to=2),
    one("cast bool to f32", "Cast", x(400_000, dtype="?", low=0, high=2), to=1),
    one("cast i64 to i32", "Cast", x(200_000, dtype="i8", low=0, high=99), to=6),
    one("cast f64 to f32", "Cast", x(200_000, dtype="f8"), to=1),
    Case("bf16 in f32", [("Cast", "x", "p", {"to": 16}), ("Cast", "z", "q", {"to": 16}),
         ("Add", "p q", "s", {}), ("Cast", "s", "y", {"to": 1})], {"x": x(*_F32), "z": x(*_F32)},
         tolerance=1e-2),
    Case("silu", [("Sigmoid", "x", "s", {}), ("Mul", "x s", "y", {})], {"x": x(*_F32)}),
    Case("normalize picture", [("Cast", "x", "f", {"to": 1}), ("Transpose", "f", "t", {"perm": [0, 3, 1, 2]}),
         ("Sub", "t m", "d", {}), ("Mul", "d s", "y", {})],
         {"x": x(1, 480, 640, 3, dtype="u1", low=0, high=256), "m": w(1, 3, 1, 1), "s": w(1, 3, 1, 1)}),
)  # fmt: skip
