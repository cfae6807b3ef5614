"""The C types of dtypes and the helper functions of a translation unit, each defined when it is first used.

A vector of 16 f32 is ``f32x16``. Memory has the *storage* elements of a dtype, registers its *values*. Floats
of at most 16 bits are computed as f32 and rounded after each function, as in NumPy. Integers of fewer than 8
bits are computed in a byte. A bool is 0 or 1 as a scalar, and 0 or -1 in an i32 lane of a vector (a mask).
All other dtypes have the same form in memory and registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.ir.types import BOOL, DTYPES, F32, F64, I32, U8, U16, U32, DType
from graphwright.targets.cpu.c.dims import DIM_HELPERS
from graphwright.targets.cpu.c.doubles import DOUBLES
from graphwright.targets.cpu.c.exponentials_v3 import EXPONENTIALS_V3
from graphwright.targets.cpu.c.halves import HALVES, halves
from graphwright.targets.cpu.c.polynomials import POLYNOMIALS
from graphwright.targets.cpu.c.scalars import SCALAR_HELPERS
from graphwright.targets.cpu.c.small_dtypes import SMALL_FLOATS, SMALL_HELPERS
from graphwright.targets.cpu.c.storage import HALF_HELPERS, LOW_BYTES_V3, LOW_V3, LOW_V4, SPREAD
from graphwright.targets.cpu.c.vectors import vector_template
from graphwright.targets.cpu.isa import Isa

C_TYPES: Final[dict[str, str]] = {
    "bool": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f16": "uint16_t", "bf16": "uint16_t", "f32": "float", "f64": "double",
    **dict.fromkeys((*SMALL_FLOATS, "f8e8m0", "i4", "u4", "i2", "u2"), "uint8_t"),
}  # fmt: skip
"""The C type of a stored element."""

_BY_VECTOR: Final = {F32: POLYNOMIALS.keys() | EXPONENTIALS_V3.keys(), F64: DOUBLES.keys()}
"""Functions whose scalar version calls the vector version."""

_SCHEDULED: Final = [
    f"""\
#if defined(__GNUC__) && !defined(__clang__) /* interleave unrolled steps; clang does so anyway */
#pragma GCC optimize({options})
#endif
"""
    for options in ('"schedule-insns"', '"schedule-insns", "sched-pressure"')
]
"""GCC options for 32 registers, and for 16, where scheduling must also limit register pressure."""

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
    """Raises ToolchainError if the emitter cannot store ``dtype``."""
    if not has_code(dtype):
        known = ", ".join(C_TYPES)
        raise ToolchainError(
            Diagnostic("emit-dtype", f"no C code for {dtype}", hint=f"cast to one of {known}")
        )


class Support:
    """The helper functions and types that a translation unit has used so far, in order of definition."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.defined: dict[str, str] = {}

    def text(self, for_library: bool = False) -> str:
        """The prelude and all definitions used; ``for_library`` if they are included in handwritten C, which
        is tuned to the number of registers.
        """
        narrow = self.isa.vector_bytes < 64
        scheduled = "" if narrow and for_library else _SCHEDULED[narrow]
        return scheduled + _PRELUDE + "\n" + "\n".join(text for text in self.defined.values() if text) + "\n"

    def define(self, name: str, text: str) -> str:
        """Adds the definition ``text`` of ``name``, once; returns ``name``."""
        self.defined.setdefault(name, text)
        return name

    def dim(self, text: str) -> str:
        """A C expression from :func:`dim_text`; defines the functions that it calls."""
        for name in re.findall(r"\bdim_(\w+)\(", text):
            self.define(f"dim_{name}", DIM_HELPERS[name])
        return text

    def vector(self, dtype: DType, lanes: int) -> str:
        """The C type of ``lanes`` elements of a plain dtype; also defines its unaligned version
        ``..._any``.
        """
        name = f"{dtype}x{lanes}"
        size, ctype = dtype.bytes * lanes, C_TYPES[dtype.name]
        attributes = f"vector_size({size}), aligned({dtype.bytes}), may_alias"
        any_type = f"typedef {ctype} {name}_any __attribute__(({attributes}));"
        return self.define(name, f"typedef {ctype} {name} __attribute__((vector_size({size})));\n{any_type}")

    def mask(self, lanes: int) -> str:
        """The C type of a mask of ``lanes`` lanes."""
        return self.vector(I32, lanes)

    def lane_mask(self, dtype: DType, lanes: int) -> str:
        """The C type of a comparison of vectors of a plain dtype."""
        return self.vector(DTYPES[f"i{dtype.bits}"], lanes)

    def scalar(self, function: str, dtype: DType) -> str:
        """The name of a scalar helper such as ``div_i32``."""
        name = f"{function}_{dtype}"
        if name in self.defined:
            return name
        if function in _BY_VECTOR.get(dtype, ()):
            return self.define(name, self._by_vector(function, dtype, name))
        helper = SCALAR_HELPERS.get(function)
        template = helper(dtype) if helper else None
        if template is None:
            raise ToolchainError(Diagnostic("emit-function", f"no C code for {function} of {dtype}"))
        for needed in re.findall(r"@(\w+)@", template):
            self.scalar(needed, dtype)
        body = re.sub(r"@(\w+)@", rf"\1_{dtype}", template)
        return self.define(name, body.replace("NAME", name).replace("@T", C_TYPES[dtype.name]))

    def _by_vector(self, function: str, dtype: DType, name: str) -> str:
        """A scalar function that gives the same bits as the vector function."""
        lanes, ctype = self.isa.vector_bytes // dtype.bytes, C_TYPES[dtype.name]
        call = self.call(function, dtype, lanes, self.call("splat", dtype, lanes, "x"))
        vector = self.vector(dtype, lanes)
        return f"GW_INLINE {ctype} {name}({ctype} x) {{\n    const {vector} y = {call};\n    return y[0];\n}}"

    def function(self, function: str, dtype: DType, lanes: int) -> str:
        """The name of a vector helper such as ``exp_f32x16``; if there is no vector version, a loop over the
        scalar one.
        """
        name = f"{function}_{dtype}x{lanes}"
        if name in self.defined:
            return name
        if function in HALVES:
            return self._by_halves(name, *HALVES[function], dtype, lanes)
        if function == "quotient_wide" and dtype != F64:
            return self.function(function, F64, lanes)
        template = vector_template(function, dtype, lanes, self.isa)
        if template is None:
            return self.define(name, self._by_lanes(function, dtype, lanes, name))
        return self.define(name, self.expand(template, name, dtype, lanes))

    def _by_halves(self, name: str, function: str, operands: str, dtype: DType, lanes: int) -> str:
        half = lanes // 2
        self.vector(DTYPES["u64"], half)
        wide = self.function(function, F64, half)
        types = self.vector(dtype, lanes), self.vector(dtype, half), self.vector(F64, half)
        return self.define(name, halves(name, wide, operands, *types, lanes))

    def call(self, function: str, dtype: DType, lanes: int, *operands: str) -> str:
        """A call of a vector helper."""
        return f"{self.function(function, dtype, lanes)}({', '.join(operands)})"

    def expand(self, template: str, name: str, dtype: DType, lanes: int) -> str:
        """Fills a template: ``@V`` is the vector, ``@T`` its element, ``@I`` lane masks, ``@M`` masks,
        ``@name@`` helpers.
        """
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
        """``a combiner b`` for vectors."""
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
        """A vector of 8- or 16-bit integers widened to i32."""
        if 4 * lanes != self.isa.vector_bytes:
            return f"__builtin_convertvector({stored}, {self.vector(I32, lanes)})"
        extension = f"{'z' if dtype.kind == 'uint' else 's'}x{'b' if dtype.bits == 8 else 'w'}d"
        template = SPREAD.replace("EXTENSION", extension)
        return f"{self.define_conversion(f'spread_{dtype}', template, dtype, I32, lanes)}({stored})"

    def gather_low(self, dtype: DType, lanes: int, value: str) -> str:
        """The low 8 or 16 bits of 32-bit lanes."""
        if 4 * lanes != self.isa.vector_bytes:
            return f"__builtin_convertvector({value}, {self.vector(dtype, lanes)})"
        is_byte = dtype.bits == 8
        if self.isa.vector_bytes == 64:
            template = LOW_V4.replace("KIND", "b" if is_byte else "w")
        else:
            template = LOW_V3.replace("MASK", "0xff" if is_byte else "0xffff")
            template = template.replace("BYTES", LOW_BYTES_V3 if is_byte else "")
        name = self.define_conversion(f"low_{dtype}", template, dtype, I32, lanes)
        return f"{name}(({self.mask(lanes)}){value})"

    def round(self, dtype: DType, lanes: int, value: str) -> str:
        """Values rounded to the precision of ``dtype``."""
        if dtype.computed == dtype:
            return value
        return self.widen(dtype, lanes, self.narrow(dtype, lanes, value))

    def scalar_bits(self, source: DType, target: DType) -> str:
        """The name of a function that reinterprets the bits of one stored element as another dtype."""
        name, from_type, to_type = f"bits_{source}_{target}", C_TYPES[source.name], C_TYPES[target.name]
        body = f"    {to_type} y;\n    __builtin_memcpy(&y, &x, sizeof y);\n    return y;\n"
        return self.define(name, f"GW_INLINE {to_type} {name}({from_type} x) {{\n{body}}}")

    def scalar_converted(self, direction: str, dtype: DType, value: str) -> str:
        """One element converted from memory to the type in which it is computed (``widen``), or back
        (``narrow``).
        """
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
        """The name of a function that converts between stored elements and values."""
        name = f"{direction}_{dtype}"
        template = HALF_HELPERS.get(name) or SMALL_HELPERS[name]
        return self.define_conversion(name, template, stored_dtype(dtype), dtype.computed, lanes)

    def define_conversion(self, stem: str, template: str, stored: DType, value: DType, lanes: int) -> str:
        """The name of a function that converts between stored elements and lanes. In its template, ``@H`` and
        ``@F`` are the vectors of both; ``@W`` is a vector of stored elements of at least 16 bytes, which
        instructions require, and ``@LOW`` and ``@FIRST`` are the lanes that are copied to and from it; ``@I``
        and ``@U`` are 32-bit lanes; ``@SPREAD(x)`` and ``@LOWEST(code)`` are :meth:`spread` and
        :meth:`gather_low` for bytes.
        """
        name = f"{stem}x{lanes}"
        if name in self.defined:
            return name
        count = max(lanes, 16 // stored.bytes)
        words: dict[str, Callable[[], str]] = {
            "H": lambda: self.vector(stored, lanes),
            "F": lambda: self.vector(value, lanes),
            "W": lambda: self.vector(stored, count),
            "LOW": lambda: ", ".join(str(i) if i < lanes else "-1" for i in range(count)),
            "FIRST": lambda: ", ".join(map(str, range(lanes))),
            "I": lambda: self.mask(lanes),
            "U": lambda: self.vector(U32, lanes),
            "REG": lambda: "v" if self.isa.vector_bytes == 64 else "x",
            "SPREAD(x)": lambda: self.spread(U8, lanes, "x"),
            "LOWEST(code)": lambda: self.gather_low(U8, lanes, "code"),
        }
        text = re.sub(r"@([A-Z]+(?:\(\w+\))?)", lambda m: words[m[1]](), template)
        return self.define(name, text.replace("NAME", name))
