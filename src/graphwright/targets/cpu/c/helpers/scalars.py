"""Scalar C helpers: operations that C leaves undefined or defines differently from NumPy, and C library
functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from graphwright.ir.types import F32, F64, DType

Template = Callable[[DType], str | None]
"""C text of the helper ``NAME`` for a dtype (``@T`` its C type, ``@name@`` another helper), None if there is
none.
"""


def _integers(text: str, unsigned: str | None = None) -> Template:
    def template(dtype: DType) -> str | None:
        if not dtype.is_integer:
            return None
        return unsigned if unsigned is not None and dtype.kind == "uint" else text

    return template


def _by_dtype(integer: Template, floating: Template) -> Template:
    return lambda dtype: floating(dtype) if dtype.is_float else integer(dtype)


def _floats(text: str) -> Template:
    return lambda dtype: text if dtype in (F32, F64) else None


def _libm(function: str, arity: int = 1) -> Template:
    """The C library's function of doubles; rounded to f32, it is correct except in rare cases."""
    prototype = f"double {function}({', '.join(['double'] * arity)});\n"
    names = "xy"[:arity]
    declared = ", ".join(f"@T {n}" for n in names)
    call = f"(@T){function}({', '.join(f'(double){n}' for n in names)})"
    return _floats(f"{prototype}GW_INLINE @T NAME({declared}) {{ return {call}; }}")


_POWER = """\
GW_INLINE @T NAME(@T x, @T n) { /* by squaring */
    @T y = 1;
    for (; n > 0; n = (@T)(n >> 1)) {
        if (n & 1)
            y = (@T)(y * x);
        x = (@T)(x * x);
    }
    return y;
}"""
_FLOAT_MOD = """\
double fmod(double, double);
GW_INLINE @T NAME(@T a, @T b) { /* the sign of b */
    const @T rest = (@T)fmod(a, b);
    if (rest == 0)
        return b < 0 ? -(@T)0 : (@T)0;
    return (b < 0) != (rest < 0) ? rest + b : rest;
}"""
_SIGN = "GW_INLINE @T NAME(@T x) { return (@T)((x > 0) - (x < 0)); }"
_INTEGER_DIV = "GW_INLINE @T NAME(@T a, @T b) { return b == 0 ? 0 : b == (@T)-1 ? (@T)-a : (@T)(a / b); }"
_INTEGER_REM = "GW_INLINE @T NAME(@T a, @T b) { return b == 0 || b == (@T)-1 ? 0 : (@T)(a % b); }"
_INTEGER_MOD = """\
GW_INLINE @T NAME(@T a, @T b) { /* the sign of b */
    const @T rest = @rem@(a, b);
    return rest != 0 && (rest ^ b) < 0 ? (@T)(rest + b) : rest;
}"""
_FLOAT_SIGN = "GW_INLINE @T NAME(@T x) { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x; }"

_UNSIGNED_REM = "GW_INLINE @T NAME(@T a, @T b) { return b == 0 ? 0 : (@T)(a % b); }"
_SHL = """\
GW_INLINE @T NAME(@T a, @T n) {
    return (uint64_t)n >= 8 * sizeof(@T) ? 0 : (@T)((uint64_t)a << n);
}"""
_SHR = """\
GW_INLINE @T NAME(@T a, @T n) {
    return (@T)(a >> ((uint64_t)n >= 8 * sizeof(@T) ? 8 * sizeof(@T) - 1 : (uint64_t)n));
}"""
_ABS = "GW_INLINE @T NAME(@T x) { return x < 0 ? (@T)-x : x; }"

_BY_LIBM: Final = (
    "exp", "expm1", "log", "log1p", "log2", "log10", "tanh", "erf", "erfc", "lgamma",
    "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh",
)  # fmt: skip

SCALAR_HELPERS: Final[dict[str, Template]] = {
    "div": _integers(_INTEGER_DIV, "GW_INLINE @T NAME(@T a, @T b) { return b == 0 ? 0 : (@T)(a / b); }"),
    "rem": _by_dtype(
        _integers(_INTEGER_REM, _UNSIGNED_REM), _libm("fmod", 2)
    ),
    "mod": _by_dtype(
        _integers(_INTEGER_MOD, _UNSIGNED_REM), _floats(_FLOAT_MOD)
    ),
    "pow": _by_dtype(_integers(_POWER), _libm("pow", 2)),
    "max": _by_dtype(
        _integers("GW_INLINE @T NAME(@T a, @T b) { return a > b ? a : b; }"),
        _floats("GW_INLINE @T NAME(@T a, @T b) { return a > b || a != a ? a : b; } /* NaN if either is */"),
    ),
    "min": _by_dtype(
        _integers("GW_INLINE @T NAME(@T a, @T b) { return a < b ? a : b; }"),
        _floats("GW_INLINE @T NAME(@T a, @T b) { return a < b || a != a ? a : b; } /* NaN if either is */"),
    ),
    "most": _floats("GW_INLINE @T NAME(@T a, @T b) { return a > b ? a : b; } /* b if either is NaN */"),
    "least": _floats("GW_INLINE @T NAME(@T a, @T b) { return a < b ? a : b; } /* b if either is NaN */"),
    "clamp": _floats(
        "GW_INLINE @T NAME(@T x, @T low, @T high) { /* low if NaN */\n"
        "    return x > low ? (x < high ? x : high) : low;\n}"
    ),
    "quantize": _floats(
        "double rint(double);\nGW_INLINE @T NAME(@T x, @T zero, @T low, @T high) { /* low if NaN */\n"
        "    const @T y = (@T)rint((double)x) + zero;\n    return y > low ? (y < high ? y : high) : low;\n}"
    ),
    "abs": _by_dtype(
        _integers(_ABS, "GW_INLINE @T NAME(@T x) { return x; }"),
        lambda dtype: f"GW_INLINE @T NAME(@T x) {{ return __builtin_fabs{'f' if dtype == F32 else ''}(x); }}",
    ),
    "sign": _by_dtype(_integers(_SIGN), _floats(_FLOAT_SIGN)),
    "shl": _integers(_SHL),
    "shr": _integers(
        _SHR,
        "GW_INLINE @T NAME(@T a, @T n) { return (uint64_t)n >= 8 * sizeof(@T) ? 0 : (@T)(a >> n); }",
    ),
    "sqrt": _libm("sqrt"),
    "floor": _libm("floor"),
    "ceil": _libm("ceil"),
    "round": _libm("rint"),
    "trunc": _libm("trunc"),
    "atan2": _libm("atan2", 2),
    "sigmoid": _floats(
        "double exp(double);\nGW_INLINE @T NAME(@T x) { return (@T)(1 / (1 + exp(-(double)x))); }",
    ),
    "float_to_u32": _floats("GW_INLINE uint32_t NAME(@T x) { return (uint32_t)(int64_t)x; }"),
    **{name: _libm(name) for name in _BY_LIBM},
}  # fmt: skip
"""Scalar helpers by function; floats are f32 and f64."""
