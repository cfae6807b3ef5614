"""Quantized weights for GEMM: B[K, N] = (codes - zeros) * scales, with scales and zeros per block of K.

Codes are packed in words u32[N, words] of ``32 / bits`` consecutive k, the first in the low bits. Words, and
scales and zero points [N, blocks], are packed in panels as wide as those of GEMM (:func:`panels`): a panel
has, for each word or block, one element per column. Codes of 8 bits are stored as bytes (``nbits_bytes.py``).

A word is masked but not shifted, which leaves a code times a power of two. The other factor is divided by
that power, once; this does not round.

If A has few rows, weights are decoded in registers: codes are multiplied by A and summed over a block; the
zero point times the sum of A is subtracted, and the rest is scaled. If A has more rows, blocks of K are
decoded into a panel, as GEMM packs unpacked matrices, once per block of rows. If 8 bits of A are enough, its
rows are quantized (``nbits_dynamic.py``).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Final

from graphwright.ir.symbols import Dim
from graphwright.ir.types import Layout
from graphwright.kernels.gemm import nbits_bytes, nbits_dynamic
from graphwright.kernels.gemm.nbits_blocks import (
    CHAINS,
    Cells,
    add_scaled,
    middle,
    start_block,
    subtract_zeros,
)
from graphwright.kernels.gemm.streams import clear_sums, store_sums
from graphwright.kernels.library.tile import TileShape
from graphwright.targets.cpu.isa import Isa

WIDTHS: Final = (2, 4, 8)
"""The supported bits per code."""
WORD: Final = 32
STREAM_ROWS: Final = 8
"""The most rows for which weights are decoded in registers, for each group of rows again."""


def panels(columns: int, rank: int = 2) -> Layout:
    """The layout of an array with one row per column of B, and of ``rank`` axes: groups are in front."""
    return Layout(tuple(range(rank)), ((rank - 2, columns),), zero_padded=True)


def group_rows(isa: Isa) -> int:
    """The most rows that share weights decoded in registers: these hold the sums of a block and of all of
    K.
    """
    return 4 if isa.vector_bytes == 64 else 2


def scratch_bytes(blocks: Dim, block: Dim) -> Dim:
    """The scratch for few rows: the sums of A over blocks, and A scaled."""
    return 4 * STREAM_ROWS * blocks * (1 + block)


def c_text(isa: Isa, shape: TileShape) -> str:
    """The C functions ``unpack_codes``, and ``stream_codes`` for few rows."""
    rows = range(1, group_rows(isa) + 1)
    functions = [
        text
        for bits in nbits_dynamic.WIDTHS
        for text in (_unpack(shape, bits), _scale(isa, bits), *(_stream(isa, shape, bits, r) for r in rows))
    ]
    unpacks = ", ".join(f"unpack_{bits}" for bits in WIDTHS)
    scales = ", ".join(f"scale_row_{bits}" for bits in nbits_dynamic.WIDTHS)
    streams = ",\n".join(f"    {{{', '.join(f'stream_{bits}_{r}' for r in rows)}}}" for bits in WIDTHS)
    return f"""\
{"".join(functions)}{nbits_bytes.c_text(isa, shape, rows)}\
{nbits_dynamic.c_text(isa, shape, _AHEAD, rows)}
typedef void (*unpack_codes_fn)(const struct codes *q, int64_t p, int64_t k0, int64_t depth, float *to);
static const unpack_codes_fn unpack_codes[] = {{{unpacks}}};
typedef void (*scale_row_fn)(const float *a, int64_t k, float *to);
static const scale_row_fn scale_row[] = {{{scales}}};
typedef void (*stream_codes_fn)(const struct codes *q, int64_t p, int64_t k, const float *a, int64_t lda,
                                const float *sums, const struct tile *t);
static const stream_codes_fn stream_codes[][{len(rows)}] = {{
{streams},
}};
"""


def _powers(bits: int) -> list[int]:
    """Log2 of the powers of two by which masked codes of half a word are multiplied, by position in it."""
    return list(range(0, WORD // 2, bits))


def _words(bits: int, vectors: Sequence[int], of_codes: Callable[[int, Sequence[str]], str]) -> str:
    """C code that loads a word of each column and decodes it. ``of_codes(j, codes)`` returns the lines that
    use code j of all words; ``codes`` are expressions, in f32.
    """
    lines = [f"vi x{v} = vi_load(word + {v} * VL);\n" for v in vectors]
    for half in range(2):
        for j, power in enumerate(_powers(bits)):
            mask = f"{((1 << bits) - 1) << power:#x}"
            codes = [f"__builtin_convertvector(x{v} & {mask}, vf)" for v in vectors]
            lines.append(of_codes(half * len(_powers(bits)) + j, codes))
        lines += [f"x{v} >>= 16;\n" for v in vectors if not half]
    return textwrap.indent("".join(lines), " " * 12)


def _code_at(mask: str, v: int) -> str:
    """The code of the words of vector ``v`` at bit ``right``, as f32."""
    return f"__builtin_convertvector(vi_load(word + {v} * VL) >> right & {mask}, vf)"


def _scale(isa: Isa, bits: int) -> str:
    """The function that divides ``a`` by the powers of two that masked codes contain."""
    powers = _powers(bits)
    factors = ", ".join(f"0x1p-{powers[lane % len(powers)]}f" for lane in range(isa.lanes))
    return f"""
static void scale_row_{bits}(const float *a, int64_t k, float *to) {{
    const vf factors = {{{factors}}};
    for (int64_t j = 0; j < k; j += VL)
        vf_store(to + j, load_most(a + j, k - j) * factors);
}}
"""


def _unpack(shape: TileShape, bits: int) -> str:
    """Decodes codes from k0 on of panel p to ``to[k][NR]``: minus their zero points, scaled."""
    count, vectors, powers = WORD // bits, range(shape.vectors), _powers(bits) * 2

    def store_whole(j: int, codes: Sequence[str]) -> str:
        power = powers[j]
        return "".join(
            f"vf_store(to + {j} * NR + {v} * VL, ({code} - 0x1p{power}f * d{v}) * (0x1p-{power}f * s{v}));\n"
            for v, code in enumerate(codes)
        )

    whole = textwrap.indent(_words(bits, vectors, store_whole), "    ")
    part = "".join(
        f"                vf_store(to + {v} * VL, ({_code_at(str((1 << bits) - 1), v)} - d{v}) * s{v});\n"
        for v in vectors
    )
    scales = "".join(f"        const vf s{v} = vf_load(q->scales + at + {v} * VL);\n" for v in vectors)
    zeros = "".join(f"        const vf d{v} = zeros_or(q, at + {v} * VL, {middle(bits)});\n" for v in vectors)
    return f"""
static void unpack_{bits}(const struct codes *q, int64_t p, int64_t k0, int64_t depth, float *to) {{
    const int64_t end = k0 + depth;
    for (int64_t k = k0; k < end;) {{
        const int64_t block = k / q->block, stop = smaller(end, (block + 1) * q->block);
        const int64_t at = (p * q->blocks + block) * NR;
{scales}{zeros}        while (k < stop) {{
            const int32_t *word = q->words + (p * q->panel_words + k / {count}) * NR;
            if (k % {count} == 0 && k + {count} <= stop) {{
{whole}                k += {count};
                to += {count} * NR;
            }} else {{
                const int right = (int)({bits} * (k % {count}));
{part}                k++;
                to += NR;
            }}
        }}
    }}
}}
"""


_AHEAD: Final = 1024
"""The prefetch distance, in words."""


def _stream(isa: Isa, shape: TileShape, bits: int, rows: int) -> str:
    """``rows`` scaled rows of A times one panel. ``sums``: those of A over each block."""
    count, vectors = WORD // bits, range(shape.vectors)
    cells = [(r, v) for r in range(rows) for v in vectors]
    fetches = "".join(
        f"            __builtin_prefetch(word + {_AHEAD + 16 * line}, 0, 3);\n"
        for line in range(shape.columns(isa) // 16)
    )
    whole = _words(bits, vectors, lambda j, codes: _products(cells, str(j), codes, j % CHAINS))
    rest = _products(cells, "j", [_code_at("mask", v) for v in vectors], 0)
    pointers = ", ".join(f"*a{r} = a + {r} * lda" for r in range(rows))
    advance = ", ".join(f"a{r} += {count}" for r in range(rows))
    newline = "\n"
    return f"""
static void stream_{bits}_{rows}(const struct codes *q, int64_t p, int64_t k, const float *a, int64_t lda,
                       const float *sums, const struct tile *t) {{
    const float {pointers};
    const int32_t *word = q->words + p * q->panel_words * NR;
    (void)lda;
{newline.join(clear_sums(rows, shape.vectors))}
    for (int64_t b = 0, at = p * q->blocks * NR; b < q->blocks; b++, at += NR) {{
{newline.join(start_block(cells, CHAINS))}
{newline.join(subtract_zeros(cells, f"zeros_or(q, at + {{}} * VL, {middle(bits)})"))}
        int64_t left_over = smaller(q->block, k - b * q->block);
        for (; left_over >= {count}; left_over -= {count}, word += NR, {advance}) {{
{fetches}{whole}        }}
        for (int64_t j = 0; j < left_over; j++) {{
            const int bit = (int)({bits} * j), right = bit & 16, mask = {(1 << bits) - 1} << (bit & 15);
{textwrap.indent(rest, " " * 12)}        }}
{newline.join(add_scaled(cells, CHAINS))}
    }}
{newline.join(store_sums(rows, shape.vectors))}
}}
"""


def _products(cells: Cells, number: str, weights: Sequence[str], chain: int) -> str:
    """The products of element ``number`` of each row of A with ``weights``, one vector each."""
    lines = [f"const vf w{v} = {w};" for v, w in enumerate(weights)]
    lines += [f"const vf y{r} = vf_set1(a{r}[{number}]);" for r in dict(cells)]
    lines += [f"ACCUMULATE(e{r}_{v}_{chain}, y{r}, w{v});" for r, v in cells]
    return "\n".join(["{", *(f"    {line}" for line in lines), "}"]) + "\n"
