"""Conversions between stored elements and 32-bit lanes: 16-bit floats, and 8- and 16-bit integers.

Templates are in the notation of :meth:`~graphwright.targets.cpu.c.support.Support.define_conversion`.
"""

from __future__ import annotations

from typing import Final

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
