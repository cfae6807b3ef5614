"""Codes of up to 4 bits times rows of A that are quantized to bytes when the product runs (dynamic
quantization), with a scale for each block of K: accuracy level 4 of MatMulNBits.

With AVX512-VNNI one instruction multiplies 64 bytes; with AVX2 the products of 8 or more bytes are added up
in 16 bits first. A masked word holds four codes in bytes, which are not consecutive along K; the bytes of A
are stored in the same order (:func:`_quads`).
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import Dim
from graphwright.kernels.gemm.nbits_blocks import middle
from graphwright.kernels.gemm.streams import clear_sums, store_sums
from graphwright.kernels.library.tile import TileShape
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

WIDTHS: Final = (2, 4)
"""The bits per code: products of larger codes would exceed 16 bits."""
_RUN: Final = 16
"""The bytes of A that are written together: those of a word or two."""
MOST: Final = 127
"""The largest magnitude of a byte of A."""


def scratch_bytes(rows: Dim, blocks: Dim, block: Dim) -> Dim:
    """The scratch for quantized rows of A: bytes, and for each block a scale and a sum."""
    return rows * blocks * (block + 8)


def c_text(isa: Isa, shape: TileShape, ahead: int, rows: range) -> str:
    """The C tables ``byte_order`` and ``stream_bytes``, by width (and number of rows). ``ahead``: the
    prefetch distance, in words.
    """
    orders = ",\n".join(f"    {{{', '.join(map(str, _order(bits)))}}}" for bits in WIDTHS)
    streams = [_Stream(isa, shape, bits, ahead, r).c_text() for bits in WIDTHS for r in rows]
    names = ",\n".join(f"    {{{', '.join(f'stream_bytes_{bits}_{r}' for r in rows)}}}" for bits in WIDTHS)
    return f"""
static const int8_t byte_order[][{_RUN}] = {{
{orders},
}};
{"".join(streams)}
typedef void (*stream_bytes_fn)(const struct codes *q, int64_t p, const struct byte_rows *a,
                                const struct tile *t);
static const stream_bytes_fn stream_bytes[][{len(rows)}] = {{
{names},
}};
"""


def _quads(bits: int) -> list[list[int]]:
    """For each shift of a word by ``bits``, the elements of the word that its masked bytes hold."""
    count = 32 // bits
    step = count // 4
    return [[shift + step * byte for byte in range(4)] for shift in range(step)]


def _order(bits: int) -> list[int]:
    """The positions of the elements of :data:`_RUN` consecutive k."""
    word = [k for quad in _quads(bits) for k in quad]
    return [start + k for start in range(0, _RUN, len(word)) for k in word]


@dataclass(frozen=True)
class _Stream:
    """The function that multiplies ``rows`` quantized rows of A by one panel."""

    isa: Isa
    shape: TileShape
    bits: int
    ahead: int
    rows: int

    @property
    def cells(self) -> list[tuple[int, int]]:
        """The vectors of the result, by row and position in the row."""
        return [(r, v) for r in range(self.rows) for v in range(self.shape.vectors)]

    def c_text(self) -> str:
        """The function."""
        bits, rows, cells, vectors = self.bits, self.rows, self.cells, range(self.shape.vectors)
        has_vnni = self.isa.vector_bytes == 64
        pointers = ", ".join(f"*a{r} = a->bytes + {r} * a->pitch" for r in range(rows))
        factors = [f"vf_set1(a->scales[{r} * q->blocks + b])" for r in range(rows)]
        shifts = [f"vf_set1(a->sums[{r} * q->blocks + b])" for r in range(rows)]
        lines = [
            "",
            *(["VNNI_TARGET"] if has_vnni else []),
            "static void",
            f"stream_bytes_{bits}_{rows}(const struct codes *q, int64_t p, const struct byte_rows *a, "
            "const struct tile *t) {",
            f"    const uint8_t {pointers};",
            "    const int32_t *word = q->words + p * q->panel_words * NR;",
            *clear_sums(rows, self.shape.vectors),
            "    for (int64_t b = 0, at = p * q->blocks * NR; b < q->blocks; b++, at += NR) {",
            f"        vi {', '.join(f'e{r}_{v} = {{0}}' for r, v in cells)};",
            f"        int64_t left = q->block / {32 // bits};",
            *(self.dots_in_32_bits() if has_vnni else self.dots_in_16_bits()),
            *(f"        const vf d{v} = zeros_or(q, at + {v} * VL, {middle(bits)});" for v in vectors),
            *(f"        const vf s{v} = vf_load(q->scales + at + {v} * VL);" for v in vectors),
            *(f"        const vf f{r} = {factors[r]}, h{r} = {shifts[r]};" for r in range(rows)),
            *(
                f"        ACCUMULATE(c{r}_{v}_0, s{v} * f{r},"
                f" __builtin_convertvector(e{r}_{v}, vf) - d{v} * h{r});"
                for r, v in cells
            ),
            "    }",
            *store_sums(rows, self.shape.vectors),
            "}",
            "",
        ]
        return "\n".join(lines)

    def dots_in_32_bits(self) -> list[str]:
        """The dot products of a block, by VNNI."""
        head = "        for (; left > 0; left--) {"
        return [head, *self.word("DOT({cell}, {codes}, {numbers});", "e"), "        }"]

    def dots_in_16_bits(self) -> list[str]:
        """The dot products of a block: as many as 16 bits can hold are added up before they are widened."""
        most = (1 << 15) // (2 * MOST * ((1 << self.bits) - 1)) // (8 // self.bits)
        return [
            "        while (left > 0) {",
            f"            vs {', '.join(f'w{r}_{v} = {{0}}' for r, v in self.cells)};",
            f"            int64_t now = smaller(left, {most});",
            "            left -= now;",
            "            for (; now > 0; now--) {",
            *(f"    {line}" for line in self.word("{cell} += dots_16({codes}, {numbers});", "w")),
            "            }",
            *(f"            e{r}_{v} += pairs_dot(w{r}_{v}, (vs){{0}} + 1);" for r, v in self.cells),
            "        }",
        ]

    def word(self, product: str, cell: str) -> list[str]:
        """C code that multiplies one word of each column. ``product`` is the C code that adds the products of
        four codes to ``cell``.
        """
        bits, vectors = self.bits, range(self.shape.vectors)
        mask = f"{sum(((1 << bits) - 1) << 8 * byte for byte in range(4)):#010x}"
        lines = [
            f"__builtin_prefetch(word + {self.ahead + at}, 0, 3);"
            for at in range(0, self.shape.columns(self.isa), 16)
        ]
        lines += [f"const vi x{v} = vi_load(word + {v} * VL);" for v in vectors]
        for shift in range(len(_quads(bits))):
            lines += ["{", *(f"    const vi y{v} = x{v} >> {bits * shift} & {mask};" for v in vectors)]
            for r in range(self.rows):
                lines += [f"    const vi n{r} = quad_all(a{r} + {4 * shift});"]
                names = ({"cell": f"{cell}{r}_{v}", "codes": f"y{v}", "numbers": f"n{r}"} for v in vectors)
                lines += [f"    {product.format(**each)}" for each in names]
            lines += ["}"]
        lines += [f"word += NR, {', '.join(f'a{r} += {32 // bits}' for r in range(self.rows))};"]
        return [f"            {line}" for line in lines]
