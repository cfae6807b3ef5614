"""Conversions of small floats and integers, which are stored in bytes.

Floats have at most 8 bits, and are computed in f32; integers have less than 8 bits, and are computed in
bytes. Formats: P. Micikevicius et al., "FP8 formats for deep learning" (2022); B. Noune et al., "8-bit
numerical formats for deep neural networks" (2022), whose zero and NaN have no sign; the OCP Microscaling
Formats (2023). Rounding is to nearest even; NaN and numbers out of range get the same codes as in ml_dtypes.
"""

from __future__ import annotations

from typing import Final

from graphwright.records import dataclass


@dataclass(frozen=True)
class SmallFloat:
    """A format with a sign, ``bits - 1 - fraction`` bits of exponent, and ``fraction`` bits of fraction.
    ``largest``, ``over`` and ``nan`` are codes without sign: of the largest number, of anything larger (also
    infinity), and of NaN. ``one_zero``: there is no -0, and its code means NaN.
    """

    bits: int
    fraction: int
    bias: int
    largest: int
    over: int
    nan: int
    one_zero: bool = False

    @property
    def sign(self) -> int:
        """The code of the sign bit."""
        return 1 << self.bits - 1

    @property
    def has_infinity(self) -> bool:
        """Whether there is a code for infinity, between the numbers and NaN."""
        return self.largest < self.over < self.nan

    def widen(self) -> str:
        """C code to f32: subnormal numbers are offset by the least normal number, which
        is then subtracted.
        """
        least = (128 - self.bias) << 23
        special = []
        if self.one_zero:
            special += [f"    return (@F)(({_select(f'code == {self.sign:#x}', '-0x400000', 'y')}));"]
        else:
            if self.nan < self.sign:
                special += [
                    f"    y = {_select(f'size >= {self.nan - self.has_infinity:#x}', '0x7fc00000', 'y')};"
                ]
            if self.has_infinity:
                special += [f"    y = {_select(f'size == {self.over:#x}', '0x7f800000', 'y')};"]
            special += ["    return (@F)(y | sign);"]
        signed = f"(code & {self.sign:#x}) << {32 - self.bits}"
        return f"""\
GW_INLINE @F NAME(@H x) {{
    const @I code = @SPREAD(x), size = code & {self.sign - 1:#x}, tiny = size < {1 << self.fraction};
    const @I moved = (size << {23 - self.fraction}) + {(127 - self.bias) << 23:#x} + (tiny & 0x800000);
    const @I sign = {signed};
    @I y = (@I)((@F)moved - (@F)(tiny & {least:#x})){" | sign" * self.one_zero};
{chr(10).join(special)}
}}"""

    def narrow(self) -> str:
        """C code from f32: normal numbers are rounded in their bits, smaller ones by adding a number with the
        same last bit.
        """
        drop = 23 - self.fraction
        least, magic = (128 - self.bias) << 23, (151 - self.bias - self.fraction) << 23
        if self.one_zero:
            lost = f"(size > 0x7f800000) | (code > {self.largest:#x})"
            signed = "code | (sign & (code != 0))"
            ends = [f"    code = {_select(lost, f'{self.nan:#x}', f'({signed})')};"]
        else:
            ends = [f"    code = {_select(f'code > {self.largest:#x}', f'{self.over:#x}', 'code')};"]
            if self.nan < self.sign:
                ends += [f"    code = {_select('size > 0x7f800000', f'{self.nan:#x}', 'code')} | sign;"]
            else:
                ends += [f"    code = {_select('size > 0x7f800000', f'{self.nan:#x}', 'code')} ^ sign;"]
        return f"""\
GW_INLINE @H NAME(@F x) {{ /* to nearest even */
    const @I bits = (@I)x, sign = bits >> {32 - self.bits} & {self.sign:#x}, size = bits & 0x7fffffff;
    const @I half = (size >> {drop} & 1) + {(1 << drop - 1) - 1:#x};
    const @I normal = ((@I)((@U)size + (@U)half) >> {drop}) - {(127 - self.bias) << self.fraction:#x};
    const @I small = (@I)((@F)size + (@F)((@I){{0}} + {magic:#x})) - {magic:#x};
    @I code = {_select(f"size < {least:#x}", "small", "normal")};
{chr(10).join(ends)}
    return @LOWEST(code);
}}"""


def _select(condition: str, yes: str, no: str) -> str:
    """A select on integer vectors."""
    return f"((({condition}) & {yes}) | (~({condition}) & {no}))"


SMALL_FLOATS: Final = {
    "f8e4m3fn": SmallFloat(8, 3, 7, 0x7E, 0x7F, 0x7F),
    "f8e4m3fnuz": SmallFloat(8, 3, 8, 0x7F, 0x80, 0x80, one_zero=True),
    "f8e5m2": SmallFloat(8, 2, 15, 0x7B, 0x7C, 0x7E),
    "f8e5m2fnuz": SmallFloat(8, 2, 16, 0x7F, 0x80, 0x80, one_zero=True),
    "f4e2m1": SmallFloat(4, 1, 1, 0x7, 0x7, 0x8),
    "f6e2m3": SmallFloat(6, 3, 1, 0x1F, 0x1F, 0x20),
    "f6e3m2": SmallFloat(6, 2, 3, 0x1F, 0x1F, 0x20),
}
"""The formats by dtype. Those of fewer than 8 bits have no NaN: ml_dtypes converts NaN to a zero of the
opposite sign.
"""

_POWERS: Final = {
    "widen_f8e8m0": """\
GW_INLINE @F NAME(@H x) { /* powers of two from 2^-127, the last code is NaN */
    const @I code = @SPREAD(x);
    return (@F)((code << 23) | (0x400000 & ((code == 0) | (code == 255))));
}""",
    "narrow_f8e8m0": """\
GW_INLINE @H NAME(@F x) { /* the nearest power of two, halves up; NaN of what is not positive and finite */
    const @I bits = (@I)x, rounded = (bits + 0x400000 + (bits == 0x400000)) >> 23;
    const @I lost = (bits <= 0) | (bits >= 0x7f400000), code = (lost & 255) | (~lost & rounded);
    return @LOWEST(code);
}""",
}


def _integer(bits: int, signed: bool) -> dict[str, str]:
    """Conversions that use the low bits of a byte; the other bits are written as 0 and ignored when read."""
    name, mask, top = f"{'i' if signed else 'u'}{bits}", (1 << bits) - 1, 1 << bits - 1
    value = f"((x & {mask}) ^ {top}) - {top}" if signed else f"x & {mask}"
    return {
        f"widen_{name}": f"GW_INLINE @F NAME(@H x) {{ return (@F)({value}); }}",
        f"narrow_{name}": f"GW_INLINE @H NAME(@F x) {{ return (@H)x & {mask}; }}",
    }


SMALL_HELPERS: Final[dict[str, str]] = (
    {f"widen_{name}": small.widen() for name, small in SMALL_FLOATS.items()}
    | {f"narrow_{name}": small.narrow() for name, small in SMALL_FLOATS.items()}
    | _POWERS
    | {k: v for bits in (2, 4) for signed in (True, False) for k, v in _integer(bits, signed).items()}
)
"""Conversion helpers by direction and dtype, in the notation of
:meth:`~graphwright.targets.cpu.c.storage.Storage.define`.
"""
