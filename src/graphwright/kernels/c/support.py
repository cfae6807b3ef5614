"""C types of the loop IR's dtypes and the helper functions of a translation unit, each written when first
used.

A vector of 16 f32 is ``f32x16``. Memory holds a dtype's *storage* elements, registers its *values*: floats of
16 bits and fewer are computed as f32 and rounded after each function, as NumPy does, integers of fewer than
8 bits in a byte; a bool is 0 or 1 as a scalar, 0 or -1 in an i32 lane as a vector (a mask). All other dtypes
are stored and computed alike.
"""

from __future__ import annotations

import re
from typing import Final

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.ir.types import BOOL, DTYPES, F32, F64, I32, U8, U16, U32, DType
from graphwright.kernels.c.dims import DIM_HELPERS
from graphwright.kernels.c.polynomials import HELPERS, OF_V4, POLYNOMIALS
from graphwright.kernels.c.power import POSITIVE, POWER, halves
from graphwright.kernels.c.scalars import SCALAR_HELPERS
from graphwright.kernels.c.small import SMALL_FLOATS, SMALL_HELPERS
from graphwright.kernels.library.isa import Isa

C_TYPES: Final[dict[str, str]] = {
    "bool": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f16": "uint16_t", "bf16": "uint16_t", "f32": "float", "f64": "double",
    **dict.fromkeys((*SMALL_FLOATS, "f8e8m0", "i4", "u4", "i2", "u2"), "uint8_t"),
}  # fmt: skip
"""The C type of a stored element."""

_SCHEDULED: Final = """\
#if defined(__GNUC__) && !defined(__clang__) /* interleave unrolled steps; clang does so anyway */
#pragma GCC optimize("schedule-insns")
#endif
"""
"""Worth it where there are registers enough."""

_PRELUDE: Final = """\
#include <stdint.h>

#define GW_EXPORT __attribute__((visibility("default")))
#define GW_INLINE static inline __attribute__((always_inline, unused))
"""


def stored_dtype(dtype: DType) -> DType:
    """The plain dtype whose C type stores ``dtype``."""
    if dtype == BOOL or dtype.computed != dtype:
        return U16 if dtype.bits == 16 else U8
    return dtype


def lane_dtype(dtype: DType) -> DType:
    """The dtype of a lane that holds a value of ``dtype``."""
    return I32 if dtype == BOOL else dtype.computed


def has_code(dtype: DType) -> bool:
    """Whether the emitter can store ``dtype``."""
    return dtype.name in C_TYPES


def check_dtype(dtype: DType) -> None:
    """Raise where the emitter cannot store ``dtype``."""
    if not has_code(dtype):
        known = ", ".join(C_TYPES)
        raise ToolchainError(
            Diagnostic("emit-dtype", f"no C code for {dtype}", hint=f"cast to one of {known}")
        )


class Support:
    """The helper functions and types that one translation unit has used so far, in the order of their
    need."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.defined: dict[str, str] = {}

    def text(self) -> str:
        """The prelude and every definition used."""
        scheduled = _SCHEDULED if self.isa.vector_bytes == 64 else ""
        return scheduled + _PRELUDE + "\n" + "\n".join(text for text in self.defined.values() if text) + "\n"

    def define(self, name: str, text: str) -> str:
        """Add ``text`` once."""
        self.defined.setdefault(name, text)
        return name

    def dim(self, text: str) -> str:
        """``text`` (of dim_text), with the functions that it calls defined."""
        for name in re.findall(r"\bdim_(\w+)\(", text):
            self.define(f"dim_{name}", DIM_HELPERS[name])
        return text

    def vector(self, dtype: DType, lanes: int) -> str:
        """The C type of ``lanes`` elements of a plain dtype; also defines its twin ``..._any`` without
        alignment."""
        name = f"{dtype}x{lanes}"
        size, ctype = dtype.bytes * lanes, C_TYPES[dtype.name]
        attributes = f"vector_size({size}), aligned({dtype.bytes}), may_alias"
        any_type = f"typedef {ctype} {name}_any __attribute__(({attributes}));"
        return self.define(name, f"typedef {ctype} {name} __attribute__((vector_size({size})));\n{any_type}")

    def mask(self, lanes: int) -> str:
        """The C type of ``lanes`` truth values."""
        return self.vector(I32, lanes)

    def lane_mask(self, dtype: DType, lanes: int) -> str:
        """The C type that comparing vectors of a plain dtype gives."""
        return self.vector(DTYPES[f"i{dtype.bits}"], lanes)

    def scalar(self, function: str, dtype: DType) -> str:
        """The name of a scalar helper such as ``div_i32``."""
        name = f"{function}_{dtype}"
        if name in self.defined:
            return name
        if dtype == F32 and function in POLYNOMIALS:
            vector = self.vector(F32, self.isa.lanes)
            lanes = self.isa.lanes
            call = self.call(function, F32, lanes, self.call("splat", F32, lanes, "x"))
            return self.define(
                name,
                f"GW_INLINE float {name}(float x) {{\n    const {vector} y = {call};\n    return y[0];\n}}",
            )
        helper = SCALAR_HELPERS.get(function)
        template = helper(dtype) if helper else None
        if template is None:
            raise ToolchainError(Diagnostic("emit-function", f"no C code for {function} of {dtype}"))
        for needed in re.findall(r"@(\w+)@", template):
            self.scalar(needed, dtype)
        body = re.sub(r"@(\w+)@", rf"\1_{dtype}", template)
        return self.define(name, body.replace("NAME", name).replace("@T", C_TYPES[dtype.name]))

    def function(self, function: str, dtype: DType, lanes: int) -> str:
        """The name of a vector helper such as ``exp_f32x16``; a loop over the scalar one where there is no
        better."""
        name = f"{function}_{dtype}x{lanes}"
        if name in self.defined:
            return name
        masked = _MASKED_MOVES.get((function, lanes * dtype.bytes == 64)) if dtype.bytes >= 4 else None
        if dtype.bytes < 4 and 4 * lanes == self.isa.vector_bytes == 64:
            masked = _SMALL_MASKED_MOVES.get(function)
        if function == "power_halves":
            return self._power_halves(name, lanes)
        template = masked or _VECTOR_HELPERS.get(function)
        if dtype == F32 and function == "pow":
            template = POWER
        elif dtype == F32:
            template = POLYNOMIALS.get(function, template or HELPERS.get(function))
        if function in ("max", "min") and dtype in (F32, F64):
            template = _FLOAT_EXTREMUM[self.isa.vector_bytes == 64].replace("VERB", function)
        elif self.isa.vector_bytes == 64 and dtype == F32:
            template = _OF_V4.get(function, template)
        if template is None or (function in _FLOAT_ONLY and not dtype.is_float):
            return self.define(name, self._by_lanes(function, dtype, lanes, name))
        return self.define(name, self.expand(template, name, dtype, lanes))

    def _power_halves(self, name: str, lanes: int) -> str:
        half = lanes // 2
        self.vector(DTYPES["u64"], half)
        positive = self.function("power_positive", F64, half)
        types = self.vector(F32, lanes), self.vector(F32, half), self.vector(F64, half)
        return self.define(name, halves(name, positive, *types, lanes))

    def call(self, function: str, dtype: DType, lanes: int, *operands: str) -> str:
        """A call of a vector helper."""
        return f"{self.function(function, dtype, lanes)}({', '.join(operands)})"

    def expand(self, template: str, name: str, dtype: DType, lanes: int) -> str:
        """Fill a template: ``@V`` the vector, ``@T`` its element, ``@I`` lane masks, ``@M`` masks,
        ``@name@`` helpers."""
        helpers = {found: self.function(found, dtype, lanes) for found in re.findall(r"@(\w+)@", template)}
        text = re.sub(r"@(\w+)@", lambda m: helpers[m[1]], template)
        words = {
            "V": self.vector(dtype, lanes),
            "I": self.lane_mask(dtype, lanes),
            "M": self.mask(lanes),
            "T": C_TYPES[dtype.name],
            "L": str(lanes),
            "REG": "v" if self.isa.vector_bytes == 64 else "x",
            "SUFFIX": {4: "s", 8: "d"}.get(dtype.bytes, ""),
            "QUAD": {4: "d", 8: "q"}.get(dtype.bytes, ""),
            "BITS": str(dtype.bits),
        }
        text = re.sub(r"@([A-Z]+)(?![A-Z(])", lambda m: words[m[1]], text)
        text = re.sub(
            r"@EACH\((.*?)\)@", lambda m: ", ".join(m[1].replace("#", str(i)) for i in range(lanes)), text
        )
        rounding = "vrndscale" if self.isa.vector_bytes == 64 else "vround"
        return text.replace("NAME", name).replace("VROUND", rounding)

    def _by_lanes(self, function: str, dtype: DType, lanes: int, name: str) -> str:
        scalar, vector = self.scalar(function, dtype), self.vector(dtype, lanes)
        head = self.defined[scalar].split(")", 1)[0]
        operands = [f"{c}" for c in "abc"[: head.count(",") + 1]]
        declared = ", ".join(f"{vector} {o}" for o in operands)
        call = f"{scalar}({', '.join(f'{o}[i]' for o in operands)})"
        return (
            f"GW_INLINE {vector} {name}({declared}) {{\n    {vector} y;\n"
            f"    for (int i = 0; i < {lanes}; ++i)\n        y[i] = {call};\n    return y;\n}}"
        )

    def reduce(self, combiner: str, dtype: DType, lanes: int) -> str:
        """The name of a helper that combines all lanes of a vector, by halves."""
        name = f"reduce_{combiner}_{dtype}x{lanes}"
        if name in self.defined:
            return name
        vector = self.vector(dtype, lanes)
        lines = [f"GW_INLINE {C_TYPES[dtype.name]} {name}({vector} x) {{"]
        half = lanes // 2
        while half:
            order = ", ".join(str(i ^ half) for i in range(lanes))
            turned = f"__builtin_shufflevector(x, x, {order})"
            lines.append(f"    x = {self.combine(combiner, dtype, lanes, 'x', turned)};")
            half //= 2
        return self.define(name, "\n".join([*lines, "    return x[0];", "}"]))

    def combine(self, combiner: str, dtype: DType, lanes: int, a: str, b: str) -> str:
        """``a combiner b`` of vectors."""
        sign = {"add": "+", "mul": "*", "and": "&", "or": "|"}.get(combiner)
        return f"{a} {sign} {b}" if sign else self.call(combiner, dtype, lanes, a, b)

    # storage <-> values

    def widen(self, dtype: DType, lanes: int, stored: str) -> str:
        """A vector of values from a vector of stored elements."""
        if dtype == BOOL:
            return f"({self.spread(U8, lanes, stored)} != 0)"
        return self._converted("widen", dtype, lanes, stored)

    def narrow(self, dtype: DType, lanes: int, value: str) -> str:
        """A vector of stored elements from a vector of values."""
        if dtype == BOOL:
            return self.gather_low(U8, lanes, f"(-({value}))")
        return self._converted("narrow", dtype, lanes, value)

    def spread(self, dtype: DType, lanes: int, stored: str) -> str:
        """A vector of integers of 8 or 16 bits as one of i32."""
        if 4 * lanes != self.isa.vector_bytes:
            return f"__builtin_convertvector({stored}, {self.vector(I32, lanes)})"
        extension = f"{'z' if dtype.kind == 'uint' else 's'}x{'b' if dtype.bits == 8 else 'w'}d"
        return self._small(_SPREAD.replace("EXTENSION", extension), f"spread_{dtype}", dtype, lanes, stored)

    def gather_low(self, dtype: DType, lanes: int, value: str) -> str:
        """The low 8 or 16 bits of lanes of 32."""
        if 4 * lanes != self.isa.vector_bytes:
            return f"__builtin_convertvector({value}, {self.vector(dtype, lanes)})"
        template = _LOW[self.isa.vector_bytes == 64, dtype.bits]
        return self._small(template, f"low_{dtype}", dtype, lanes, f"({self.vector(I32, lanes)}){value}")

    def _small(self, template: str, stem: str, dtype: DType, lanes: int, value: str) -> str:
        """A call of a helper between i32 and integers of 8 or 16 bits, which fill 16 bytes at least."""
        name, count = f"{stem}x{lanes}", max(lanes, 16 // dtype.bytes)
        words = {
            "@I": self.vector(I32, lanes),
            "@V": self.vector(dtype, lanes),
            "@WIDE": self.vector(dtype, count),
            "@FILL": ", ".join(str(i) if i < lanes else "-1" for i in range(count)),
            "@FIRST": ", ".join(map(str, range(lanes))),
            "@REG": "v" if self.isa.vector_bytes == 64 else "x",
            "@NAME": name,
        }
        text = re.sub(r"@[A-Z]+", lambda m: words[m[0]], template)
        return f"{self.define(name, text)}({value})"

    def round(self, dtype: DType, lanes: int, value: str) -> str:
        """Values rounded to what ``dtype`` can hold."""
        if dtype.computed == dtype:
            return value
        return self.widen(dtype, lanes, self.narrow(dtype, lanes, value))

    def scalar_bits(self, source: DType, target: DType) -> str:
        """The name of a function that reads the bits of one stored element as another."""
        name, from_type, to_type = f"bits_{source}_{target}", C_TYPES[source.name], C_TYPES[target.name]
        body = f"    {to_type} y;\n    __builtin_memcpy(&y, &x, sizeof y);\n    return y;\n"
        return self.define(name, f"GW_INLINE {to_type} {name}({from_type} x) {{\n{body}}}")

    def scalar_converted(self, direction: str, dtype: DType, value: str) -> str:
        """One element from memory (``widen``) to what it is computed in, or back (``narrow``)."""
        name = f"{direction}_{dtype}"
        vector = self._helper(direction, dtype, 8)
        stored, value_type = stored_dtype(dtype), dtype.computed
        source, target = (stored, value_type) if direction == "widen" else (value_type, stored)
        self.define(
            name,
            f"GW_INLINE {C_TYPES[target.name]} {name}({C_TYPES[source.name]} x) {{\n"
            f"    const {self.vector(target, 8)} y = {vector}({self.call('splat', source, 8, 'x')});\n"
            "    return y[0];\n}",
        )
        return f"{name}({value})"

    def _converted(self, direction: str, dtype: DType, lanes: int, text: str) -> str:
        if dtype.computed == dtype:
            return text
        return f"{self._helper(direction, dtype, lanes)}({text})"

    def _helper(self, direction: str, dtype: DType, lanes: int) -> str:
        """The name of a function between stored elements and values of them."""
        name = f"{direction}_{dtype}"
        words = {"@H": self.vector(stored_dtype(dtype), lanes), "@F": self.vector(dtype.computed, lanes)}
        words["@I"], words["@U"], words["@L"] = self.mask(lanes), self.vector(U32, lanes), str(lanes)
        words["@REG"] = "v" if self.isa.vector_bytes == 64 else "x"
        words["@W"] = self.vector(U16, max(lanes, 8))  # the instructions read at least 16 bytes
        words["@LOW"] = ", ".join(str(i) if i < lanes else "-1" for i in range(max(lanes, 8)))
        words["@FIRST"] = ", ".join(map(str, range(lanes)))
        text = _HALF_HELPERS.get(name) or SMALL_HELPERS[name]
        if "@SPREAD" in text:
            words["@SPREAD(x)"] = self.spread(U8, lanes, "x")
        if "@LOWEST" in text:
            words["@LOWEST(code)"] = self.gather_low(U8, lanes, "code")
        for word, meaning in sorted(words.items(), key=lambda item: -len(item[0])):
            text = text.replace(word, meaning)
        return self.define(f"{name}x{lanes}", text.replace("NAME", f"{name}x{lanes}"))


_HALF_HELPERS: Final = {
    "widen_f16": """\
GW_INLINE @F NAME(@H x) {
    @F y;
    const @W wide = __builtin_shufflevector(x, x, @LOW);
    __asm__("vcvtph2ps %1, %0" : "=@REG"(y) : "@REG"(wide));
    return y;
}""",
    "narrow_f16": """\
GW_INLINE @H NAME(@F x) {
    @W y;
    __asm__("vcvtps2ph $0, %1, %0" : "=@REG"(y) : "@REG"(x)); /* to nearest even */
    return __builtin_shufflevector(y, y, @FIRST);
}""",
    "widen_bf16": "GW_INLINE @F NAME(@H x) { return (@F)(__builtin_convertvector(x, @U) << 16); }",
    "narrow_bf16": """\
GW_INLINE @H NAME(@F x) {
    const @U bits = (@U)x, nan = (@U)(x != x);
    const @U rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16; /* to nearest even */
    return __builtin_convertvector((rounded & ~nan) | ((bits >> 16 | 0x40) & nan), @H);
}""",
}

_SPREAD: Final = """\
GW_INLINE @I @NAME(@V x) {
    @I y;
    const @WIDE all = __builtin_shufflevector(x, x, @FILL);
    __asm__("vpmovEXTENSION %1, %0" : "=@REG"(y) : "@REG"(all));
    return y;
}"""

_LOW: Final[dict[tuple[bool, int], str]] = {
    (True, 8): """\
GW_INLINE @V @NAME(@I x) {
    @V y;
    __asm__("vpmovdb %1, %0" : "=v"(y) : "v"(x));
    return y;
}""",
    (True, 16): """\
GW_INLINE @V @NAME(@I x) {
    @V y;
    __asm__("vpmovdw %1, %0" : "=v"(y) : "v"(x));
    return y;
}""",
    (False, 8): """\
GW_INLINE @V @NAME(@I x) {
    @WIDE y;
    __asm__("vextracti128 $1, %1, %0\\n\\tvpackusdw %0, %x1, %0\\n\\tvpackuswb %0, %0, %0"
            : "=&x"(y) : "x"(x & 0xff));
    return __builtin_shufflevector(y, y, @FIRST);
}""",
    (False, 16): """\
GW_INLINE @V @NAME(@I x) {
    @WIDE y;
    __asm__("vextracti128 $1, %1, %0\\n\\tvpackusdw %0, %x1, %0" : "=&x"(y) : "x"(x & 0xffff));
    return __builtin_shufflevector(y, y, @FIRST);
}""",
}
"""By whether it is AVX-512, and bits kept: GCC 12 takes lanes apart one by one."""

_SMALL_MASKED_MOVES: Final[dict[str, str]] = {
    "load_mask": """\
GW_INLINE @V NAME(const @T *p, @M mask) { /* zeros where masked off */
    @V x;
    __asm__("vpmovd2m %2, %%k1\\n\\tvmovdqu@BITS %1, %0 %{%%k1%}%{z%}"
            : "=&v"(x) : "m"(*(const @V_any *)p), "v"(mask) : "k1");
    return x;
}""",
    "store_mask": """\
GW_INLINE void NAME(@T *p, @V x, @M mask) {
    __asm__("vpmovd2m %2, %%k1\\n\\tvmovdqu@BITS %1, %0 %{%%k1%}"
            : "+m"(*(@V_any *)p) : "v"(x), "v"(mask) : "k1");
}""",
}
"""Masked moves of 1- and 2-byte elements with AVX-512."""

_FLOAT_ONLY: Final = frozenset({"abs", "clamp", "sqrt", "floor", "ceil", "round", "trunc"})

_EXTREMUM: Final = """\
GW_INLINE @V NAME(@V a, @V b) { /* NaN if either is */
    const @I take = (a SIGN b) | (a != a);
    return (@V)(((@I)a & take) | ((@I)b & ~take));
}"""

_FLOAT_EXTREMUM: Final = {
    False: """\
GW_INLINE @V NAME(@V a, @V b) { /* NaN if either is */
    @V y;
    __asm__("vVERBp@SUFFIX %2, %1, %0" : "=x"(y) : "x"(a), "x"(b)); /* b if either is NaN */
    const @I undefined = a != a;
    return (@V)(((@I)a & undefined) | ((@I)y & ~undefined));
}""",
    True: """\
GW_INLINE @V NAME(@V a, @V b) { /* NaN if either is: the instruction gives b then */
    @V y;
    __asm__("vVERBp@SUFFIX %2, %1, %0\\n\\tvcmpp@SUFFIX $3, %1, %1, %%k1\\n\\tvmovap@SUFFIX %1, %0 %{%%k1%}"
            : "=&v"(y) : "v"(a), "v"(b) : "k1");
    return y;
}""",
}
"""``max`` and ``min`` of floats, by whether it is AVX-512."""

_DIVIDED_V4: Final = """\
GW_INLINE @V NAME(@V x, @T c) { /* x / c as it rounds, by c's inverse and what that leaves over */
    const @T inverse = 1 / c;
    if (!(c > 1e-30f || c < -1e-30f) || !(c < 1e30f && c > -1e30f))
        return x / c;
    @V y = x * inverse; /* kept where zero, subnormal, infinite or NaN: classes 0xbf */
    const @V rest = x - y * c;
    __asm__("vfpclassps $0xbf, %0, %%k1\\n\\tknotw %%k1, %%k1\\n\\tvfmadd231ps %2, %1, %0 %{%%k1%}"
            : "+v"(y) : "v"(rest), "v"(@splat@(inverse)) : "k1");
    return y;
}"""
"""Four instructions, where the divider takes as long as twenty. Of or to numbers below 2^-100 one unit in the
last place may be lost: what is left over underflows. P. Markstein, "Computation of elementary
functions on the IBM RISC System/6000 processor" (1990)."""

_ROUNDING: Final = """\
GW_INLINE @V NAME(@V x) {
    @V y;
    __asm__("VROUNDp@SUFFIX $MODE, %1, %0" : "=@REG"(y) : "@REG"(x));
    return y;
}"""
"""To an integer: mode 8 to the nearest, halves to even; 9 down, 10 up, 11 towards zero."""

_OF_V4: Final = OF_V4 | {"divided": _DIVIDED_V4}
"""AVX-512's way of helpers of f32."""

_MASKED_MOVES: Final[dict[tuple[str, bool], str]] = {
    ("load_mask", False): """\
GW_INLINE @V NAME(const @T *p, @M mask) { /* zeros where masked off */
    @V x;
    __asm__("vmaskmovp@SUFFIX %1, %2, %0" : "=x"(x)
            : "m"(*(const @V_any *)p), "x"(__builtin_convertvector(mask, @I)));
    return x;
}""",
    ("store_mask", False): """\
GW_INLINE void NAME(@T *p, @V x, @M mask) {
    __asm__("vmaskmovp@SUFFIX %1, %2, %0" : "+m"(*(@V_any *)p)
            : "x"(x), "x"(__builtin_convertvector(mask, @I)));
}""",
    ("load_mask", True): """\
GW_INLINE @V NAME(const @T *p, @M mask) { /* zeros where masked off */
    @V x;
    const @I wide = __builtin_convertvector(mask, @I);
    __asm__("vpmov@QUAD2m %2, %%k1\\n\\tvmovup@SUFFIX %1, %0 %{%%k1%}%{z%}"
            : "=&v"(x) : "m"(*(const @V_any *)p), "v"(wide) : "k1");
    return x;
}""",
    ("store_mask", True): """\
GW_INLINE void NAME(@T *p, @V x, @M mask) {
    const @I wide = __builtin_convertvector(mask, @I);
    __asm__("vpmov@QUAD2m %2, %%k1\\n\\tvmovup@SUFFIX %1, %0 %{%%k1%}" 
            : "+m"(*(@V_any *)p) : "v"(x), "v"(wide) : "k1");
}""",
}
"""Masked moves of 4- and 8-byte elements by function and whether the vector has 64 bytes."""

_VECTOR_HELPERS: Final[dict[str, str]] = {
    "splat": "GW_INLINE @V NAME(@T x) { return (@V){@EACH(x)@}; }",
    "iota": "GW_INLINE @V NAME(void) { return (@V){@EACH(#)@}; }",
    "first": "GW_INLINE @M NAME(int64_t n) { return (@M){@EACH(#)@} < (int32_t)n; }",
    "load": "GW_INLINE @V NAME(const @T *p) { return *(const @V_any *)p; }",
    "store": "GW_INLINE void NAME(@T *p, @V x) { *(@V_any *)p = x; }",
    "load_stride": "GW_INLINE @V NAME(const @T *p, int64_t s) { return (@V){@EACH(p[# * s])@}; }",
    "gather": "GW_INLINE @V NAME(const @T *p, const int64_t *at) { return (@V){@EACH(p[at[#]])@}; }",
    "store_stride": """\
GW_INLINE void NAME(@T *p, int64_t s, @V x) {
    for (int i = 0; i < @L; ++i)
        p[i * s] = x[i];
}""",
    "scatter": """\
GW_INLINE void NAME(@T *p, const int64_t *at, @V x) {
    for (int i = 0; i < @L; ++i)
        p[at[i]] = x[i];
}""",
    "load_mask": """\
GW_INLINE @V NAME(const @T *p, @M mask) { /* zeros where masked off */
    @V x = {0};
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            x[i] = p[i];
    return x;
}""",
    "store_mask": """\
GW_INLINE void NAME(@T *p, @V x, @M mask) {
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            p[i] = x[i];
}""",
    "load_stride_mask": """\
GW_INLINE @V NAME(const @T *p, int64_t s, @M mask) {
    @V x = {0};
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            x[i] = p[i * s];
    return x;
}""",
    "gather_mask": """\
GW_INLINE @V NAME(const @T *p, const int64_t *at, @M mask) {
    @V x = {0};
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            x[i] = p[at[i]];
    return x;
}""",
    "store_stride_mask": """\
GW_INLINE void NAME(@T *p, int64_t s, @V x, @M mask) {
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            p[i * s] = x[i];
}""",
    "scatter_mask": """\
GW_INLINE void NAME(@T *p, const int64_t *at, @V x, @M mask) {
    for (int i = 0; i < @L; ++i)
        if (mask[i])
            p[at[i]] = x[i];
}""",
    "power_positive": POSITIVE,
    "choose": "GW_INLINE @V NAME(@I take, @V yes, @V no) {\n"
    "    return (@V)(((@I)yes & take) | ((@I)no & ~take));\n}",
    "select": """\
GW_INLINE @V NAME(@M mask, @V yes, @V no) {
    const @I take = __builtin_convertvector(mask, @I);
    return (@V)(((@I)yes & take) | ((@I)no & ~take));
}""",
    "divided": "GW_INLINE @V NAME(@V x, @T c) { return x / c; }",
    "max": _EXTREMUM.replace("SIGN", ">"),
    "min": _EXTREMUM.replace("SIGN", "<"),
    "clamp": """\
GW_INLINE @V NAME(@V x, @V low, @V high) { /* low if NaN: the instruction gives its second operand then */
    @V y;
    __asm__("vmaxp@SUFFIX %2, %1, %0\\n\\tvminp@SUFFIX %3, %0, %0"
            : "=&@REG"(y) : "@REG"(x), "@REG"(low), "@REG"(high));
    return y;
}""",
    "abs": "GW_INLINE @V NAME(@V x) { return (@V)((@I)x & ~(@I)@splat@(-(@T)0)); }",
    "sqrt": """\
GW_INLINE @V NAME(@V x) {
    @V y;
    __asm__("vsqrtp@SUFFIX %1, %0" : "=@REG"(y) : "@REG"(x));
    return y;
}""",
    "sign": """\
GW_INLINE @V NAME(@V x) {
    const @V zero = {0}, one = zero + 1;
    const @I up = (@I)one & (x > zero), down = (@I)(zero - one) & (x < zero);
    return (@V)(up | down | ((@I)x & (x != x)));
}""",
    "round": _ROUNDING.replace("MODE", "8"),
    "floor": _ROUNDING.replace("MODE", "9"),
    "ceil": _ROUNDING.replace("MODE", "10"),
    "trunc": _ROUNDING.replace("MODE", "11"),
}  # fmt: skip
"""Vector helpers of a plain dtype: see :meth:`Support.expand` for the notation."""
