"""Conversions between stored elements and 32-bit lanes: 16-bit floats, and 8- and 16-bit integers.

Templates are in the notation of :meth:`Storage.define`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from graphwright.ir.types import BOOL, I32, U8, U32, DType
from graphwright.targets.cpu.c.dtypes import C_TYPES, stored_dtype
from graphwright.targets.cpu.c.helpers.small_dtypes import SMALL_HELPERS
from graphwright.targets.cpu.c.prelude import Prelude

HALF_HELPERS: Final = {
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

SPREAD: Final = """\
GW_INLINE @I NAME(@H x) {
    @I y;
    const @W all = __builtin_shufflevector(x, x, @LOW);
    __asm__("vpmovEXTENSION %1, %0" : "=@REG"(y) : "@REG"(all));
    return y;
}"""
"""Widening; ``EXTENSION``: ``zxbd``, ``sxwd`` and similar."""

LOW_V4: Final = """\
GW_INLINE @H NAME(@I x) {
    @H y;
    __asm__("vpmovdKIND %1, %0" : "=v"(y) : "v"(x));
    return y;
}"""
"""The low bits of lanes, with AVX-512; ``KIND``: ``b`` or ``w``. GCC 12 would extract lanes one by one."""

LOW_V3: Final = """\
GW_INLINE @H NAME(@I x) {
    @W y;
    __asm__("vextracti128 $1, %1, %0\\n\\tvpackusdw %0, %x1, %0BYTES"
            : "=&x"(y) : "x"(x & MASK));
    return __builtin_shufflevector(y, y, @FIRST);
}"""
"""The low bits of lanes, with AVX2; ``BYTES``: empty, or the instruction that narrows words to bytes."""

LOW_BYTES_V3: Final = "\\n\\tvpackuswb %0, %0, %0"


class Storage:
    """Converts between stored elements and values, as C expressions."""

    def __init__(self, prelude: Prelude) -> None:
        self.prelude = prelude

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
        if 4 * lanes != self.prelude.isa.vector_bytes:
            return f"__builtin_convertvector({stored}, {self.prelude.vector(I32, lanes)})"
        extension = f"{'z' if dtype.kind == 'uint' else 's'}x{'b' if dtype.bits == 8 else 'w'}d"
        template = SPREAD.replace("EXTENSION", extension)
        return f"{self.define(f'spread_{dtype}', template, dtype, I32, lanes)}({stored})"

    def gather_low(self, dtype: DType, lanes: int, value: str) -> str:
        """The low 8 or 16 bits of 32-bit lanes."""
        if 4 * lanes != self.prelude.isa.vector_bytes:
            return f"__builtin_convertvector({value}, {self.prelude.vector(dtype, lanes)})"
        is_byte = dtype.bits == 8
        if self.prelude.isa.vector_bytes == 64:
            template = LOW_V4.replace("KIND", "b" if is_byte else "w")
        else:
            template = LOW_V3.replace("MASK", "0xff" if is_byte else "0xffff")
            template = template.replace("BYTES", LOW_BYTES_V3 if is_byte else "")
        name = self.define(f"low_{dtype}", template, dtype, I32, lanes)
        return f"{name}(({self.prelude.mask(lanes)}){value})"

    def round(self, dtype: DType, lanes: int, value: str) -> str:
        """Values rounded to the precision of ``dtype``."""
        if dtype.computed == dtype:
            return value
        return self.widen(dtype, lanes, self.narrow(dtype, lanes, value))

    def scalar_bits(self, source: DType, target: DType) -> str:
        """The name of a function that reinterprets the bits of one stored element as another dtype."""
        name, from_type, to_type = f"bits_{source}_{target}", C_TYPES[source.name], C_TYPES[target.name]
        body = f"    {to_type} y;\n    __builtin_memcpy(&y, &x, sizeof y);\n    return y;\n"
        return self.prelude.define(name, f"GW_INLINE {to_type} {name}({from_type} x) {{\n{body}}}")

    def scalar_converted(self, direction: str, dtype: DType, value: str) -> str:
        """One element converted from memory to the type in which it is computed (``widen``), or back
        (``narrow``).
        """
        name = f"{direction}_{dtype}"
        vector = self._helper(direction, dtype, 8)
        stored, value_type = stored_dtype(dtype), dtype.computed
        source, target = (stored, value_type) if direction == "widen" else (value_type, stored)
        target_vector, splat = self.prelude.vector(target, 8), self.prelude.call("splat", source, 8, "x")
        self.prelude.define(
            name,
            f"GW_INLINE {C_TYPES[target.name]} {name}({C_TYPES[source.name]} x) {{\n"
            f"    const {target_vector} y = {vector}({splat});\n    return y[0];\n}}",
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
        return self.define(name, template, stored_dtype(dtype), dtype.computed, lanes)

    def define(self, stem: str, template: str, stored: DType, value: DType, lanes: int) -> str:
        """The name of a function that converts between stored elements and lanes. In its template, ``@H`` and
        ``@F`` are the vectors of both; ``@W`` is a vector of stored elements of at least 16 bytes, which
        instructions require, and ``@LOW`` and ``@FIRST`` are the lanes that are copied to and from it; ``@I``
        and ``@U`` are 32-bit lanes; ``@SPREAD(x)`` and ``@LOWEST(code)`` are :meth:`spread` and
        :meth:`gather_low` for bytes.
        """
        name = f"{stem}x{lanes}"
        if name in self.prelude.defined:
            return name
        count = max(lanes, 16 // stored.bytes)
        words: dict[str, Callable[[], str]] = {
            "H": lambda: self.prelude.vector(stored, lanes),
            "F": lambda: self.prelude.vector(value, lanes),
            "W": lambda: self.prelude.vector(stored, count),
            "LOW": lambda: ", ".join(str(i) if i < lanes else "-1" for i in range(count)),
            "FIRST": lambda: ", ".join(map(str, range(lanes))),
            "I": lambda: self.prelude.mask(lanes),
            "U": lambda: self.prelude.vector(U32, lanes),
            "REG": lambda: "v" if self.prelude.isa.vector_bytes == 64 else "x",
            "SPREAD(x)": lambda: self.spread(U8, lanes, "x"),
            "LOWEST(code)": lambda: self.gather_low(U8, lanes, "code"),
        }
        text = re.sub(r"@([A-Z]+(?:\(\w+\))?)", lambda m: words[m[1]](), template)
        return self.prelude.define(name, text.replace("NAME", name))
