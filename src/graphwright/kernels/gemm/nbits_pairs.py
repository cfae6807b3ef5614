"""Codes of up to 4 bits times a few rows of A with AVX512-BF16: one instruction adds two products.

A bf16 table holds the numbers of the codes exactly. A number of A is split into the sum of two bf16 numbers,
with a relative error of at most 2**-18. A pair consists of numbers half a word apart; both parts of A are
multiplied.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from graphwright.kernels.gemm.nbits_blocks import add_scaled, start_block, subtract_zeros
from graphwright.kernels.library.streams import start_sums, store_sums
from graphwright.kernels.library.tile import TileShape
from graphwright.targets.cpu.isa import Isa

WIDTHS: Final = (2, 4)
"""The bits per code. Codes of 8 bits would need two tables, which takes longer than converting them."""
_CHAINS: Final = 6
"""The accumulators that keep the product units busy; if there are fewer, the parts of A have accumulators of
their own.
"""


def c_text(isa: Isa, shape: TileShape, ahead: int, rows: range) -> str:
    """``split_row`` and ``stream_pairs`` by width; empty if registers are too short."""
    if isa.vector_bytes != 64:
        return ""
    streams = [_stream(isa, shape, bits, ahead, r) for bits in WIDTHS for r in rows]
    names = ",\n".join(f"    {{{', '.join(f'stream_pairs_{bits}_{r}' for r in rows)}}}" for bits in WIDTHS)
    return f"""\
{"".join(_split(isa, bits) for bits in WIDTHS)}{"".join(streams)}
static const prepare_row_fn split_row[] = {{{", ".join(f"split_row_{bits}" for bits in WIDTHS)}}};
typedef void (*stream_pairs_fn)(const struct codes *q, int64_t p, int64_t k, const float *a, int64_t lda,
                                const float *sums, const struct tile *t);
static const stream_pairs_fn stream_pairs[][{len(rows)}] = {{
{names},
}};
"""


def _split(isa: Isa, bits: int) -> str:
    """The function that writes, for each vector of ``a``, the pairs of its first parts, then those of its
    second parts to ``to``.
    """
    count = 32 // bits
    first = [k for k in range(isa.lanes) if k % count < count // 2]

    def halves(apart: int) -> str:
        lanes = ", ".join(str(part * isa.lanes + k + apart) for part in range(2) for k in first)
        return f"(vw)__builtin_shufflevector(high, low, {lanes})"

    return f"""
static void split_row_{bits}(const float *a, int64_t k, float *to) {{
    for (int64_t j = 0; j < k; j += VL) {{
        const vf x = load_most(a + j, k - j), high = in_bf16(x), low = in_bf16(remaining(x, high));
        vf_store(to + j, (vf)({halves(0)} >> 16 | {halves(count // 2)}));
    }}
}}
"""


def _table(bits: int) -> str:
    """The numbers of 5-bit indices, whose low bits are the code."""
    middle = 1 << (bits - 1)
    halves = [_bf16((i & (1 << bits) - 1) - middle) for i in range(32)]
    pairs = (f"{low | high << 16:#010x}" for low, high in zip(halves[::2], halves[1::2], strict=True))
    return f"    const vw table = {{{', '.join(pairs)}}};\n"


def _bf16(number: int) -> int:
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    return int(bits) >> 16


def _stream(isa: Isa, shape: TileShape, bits: int, ahead: int, rows: int) -> str:
    """``rows`` split rows of A times one panel: a vector of A is multiplied by all words that contain
    its k.
    """
    vectors = range(shape.vectors)
    cells = [(r, v) for r in range(rows) for v in vectors]
    chains = 2 if len(cells) < _CHAINS else 1
    advance = "".join(f"            a{r} += VL;\n" for r in range(rows))
    newline = "\n"
    return f"""
static void stream_pairs_{bits}_{rows}(const struct codes *q, int64_t p, int64_t k, const float *a,
                             int64_t lda, const float *sums, const struct tile *t) {{
{_table(bits)}    const float {", ".join(f"*a{r} = a + {r} * lda" for r in range(rows))};
    const int32_t *word = q->words + p * q->panel_words * NR;
    (void)lda;
{newline.join(start_sums(rows, shape.vectors, 1))}
    for (int64_t b = 0, at = p * q->blocks * NR; b < q->blocks; b++, at += NR) {{
{newline.join(start_block(cells, chains))}
        if (q->zeros) {{
{newline.join(subtract_zeros(cells, f"zeros_at(q, at + {{}} * VL, {1 << (bits - 1)})"))}
        }}
        const int64_t stop = smaller(q->block, k - b * q->block);
        for (int64_t j = 0; j < stop; j += VL) {{
{_step(isa, shape, bits, ahead, cells, chains)}{advance}        }}
{newline.join(add_scaled(cells, chains))}
    }}
{newline.join(store_sums(rows, shape.vectors))}
}}
"""


def _step(
    isa: Isa,
    shape: TileShape,
    bits: int,
    ahead: int,
    cells: Sequence[tuple[int, int]],
    chains: int,
) -> str:
    """The products of a vector of A, and the prefetches and loads of the words that they need."""
    count, vectors = 32 // bits, range(shape.vectors)
    words = range(isa.lanes // count)
    fetches = "".join(
        f"            __builtin_prefetch(word + {ahead + 16 * line}, 0, 3);\n"
        for line in range(len(words) * shape.columns(isa) // 16)
    )
    loads = "".join(
        f"            const vi x{w}_{v} = vi_load(word + {w} * NR + {v} * VL);\n"
        for w in words
        for v in vectors
    )
    products = "".join(
        f"            {{\n{_products(isa, bits, w, j, cells, chains)}            }}\n"
        for w in words
        for j in range(count // 2)
    )
    return f"{fetches}{loads}{products}            word += {len(words)} * NR;\n"


def _products(isa: Isa, bits: int, word: int, j: int, cells: Sequence[tuple[int, int]], chains: int) -> str:
    """The products of numbers j and j + half of ``word`` with both parts of A."""
    rows, vectors = dict.fromkeys(r for r, _ in cells), dict.fromkeys(v for _, v in cells)
    first = word * (32 // bits) // 2 + j
    lines = [
        f"const vf y{part}{r} = vf_set1(a{r}[{part * isa.lanes // 2 + first}]);"
        for part in range(2)
        for r in rows
    ]
    lines += [f"const vf w{v} = pairs_chosen((vu)x{word}_{v} >> {bits * j}, table);" for v in vectors]
    lines += [
        f"ACCUMULATE_PAIRS(e{r}_{v}_{part % chains}, y{part}{r}, w{v});"
        for part in range(2)
        for r, v in cells
    ]
    return "".join(f"                {line}\n" for line in lines)
