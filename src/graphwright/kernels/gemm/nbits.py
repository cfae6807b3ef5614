"""Quantized weights for GEMM: B[K, N] = (codes - zeros) * scales, with scales and zeros per block of K.

Codes are packed in words u32[N, words] of ``32 / bits`` consecutive k, the first in the low bits. Words, and
scales and zero points [N, blocks], are packed in panels as wide as those of GEMM (:func:`panels`): a panel
has, for each word or block, one element per column. Codes of 8 bits are stored as bytes (``nbits_bytes.py``).

If A has few rows, weights are decoded in registers: the codes of a word are decoded, multiplied by A and
summed over a block, and the sum is scaled. Pairs of bf16 are used if that is faster (``nbits_pairs.py``). If
A has more rows, blocks of K are decoded into a panel, as GEMM packs unpacked matrices, once per block of
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphwright.ir.symbols import Dim
from graphwright.ir.types import Layout
from graphwright.kernels.gemm import nbits_bytes, nbits_pairs
from graphwright.kernels.gemm.nbits_blocks import add_scaled, subtract_zeros
from graphwright.kernels.library.streams import start_sums, store_sums
from graphwright.kernels.library.tile import TileShape
from graphwright.targets.cpu.isa import Isa

WIDTHS: Final = (2, 4, 8)
"""The supported bits per code."""
WORD: Final = 32


def panels(columns: int) -> Layout:
    """The layout of an array with one row per column of B."""
    return Layout((0, 1), ((0, columns),), zero_padded=True)


def stream_rows(isa: Isa) -> int:
    """The most rows for which weights are decoded in registers: these hold the sums of a block and of all of
    K.
    """
    return 4 if isa.vector_bytes == 64 else 2


def scratch_bytes(isa: Isa, blocks: Dim, block: Dim) -> Dim:
    """The scratch for few rows: the sums of A over blocks, and A as pairs."""
    return 4 * stream_rows(isa) * blocks * (1 + block)


def _middle(bits: int) -> int:
    """The code that means 0 if there are no zero points."""
    return 1 << (bits - 1)


def c_text(isa: Isa, shape: TileShape) -> str:
    """The C functions ``unpack_codes``, and ``stream_codes`` for few rows."""
    rows = range(1, stream_rows(isa) + 1)
    functions = [
        text
        for bits in nbits_pairs.WIDTHS
        for text in (_unpack(isa, shape, bits), *(_stream(isa, shape, bits, r) for r in rows))
    ]
    unpacks = ", ".join(f"unpack_{bits}" for bits in WIDTHS)
    streams = ",\n".join(f"    {{{', '.join(f'stream_{bits}_{r}' for r in rows)}}}" for bits in WIDTHS)
    return f"""\
{"".join(functions)}{nbits_bytes.c_text(isa, shape, rows)}{nbits_pairs.c_text(isa, shape, _AHEAD, rows)}
typedef void (*unpack_codes_fn)(const struct codes *q, int64_t p, int64_t k0, int64_t depth, float *to);
static const unpack_codes_fn unpack_codes[] = {{{unpacks}}};
typedef void (*stream_codes_fn)(const struct codes *q, int64_t p, int64_t k, const float *a, int64_t lda,
                                const float *sums, const struct tile *t);
static const stream_codes_fn stream_codes[][{len(rows)}] = {{
{streams},
}};
"""


def _table(isa: Isa, bits: int) -> str:
    """The declaration of the lookup table of the numbers of 4-bit codes."""
    if not _looks_up(isa, bits):
        return ""
    numbers = ", ".join(str((i & (1 << bits) - 1) - _middle(bits)) for i in range(16))
    return f"    const vf table = {{{numbers}}};\n"


def _looks_up(isa: Isa, bits: int) -> bool:
    return isa.vector_bytes == 64 and bits <= 4


def _number(isa: Isa, bits: int, word: str, number: int) -> str:
    """The code with index ``number`` in each word of a vector, minus the default zero point, as f32."""
    if _looks_up(isa, bits):
        return f"chosen((vu){word} >> {bits * number}, table)"
    return _shifted(bits, word, str(bits * number))


def _shifted(bits: int, word: str, right: str) -> str:
    return f"__builtin_convertvector(({word} >> {right} & {(1 << bits) - 1}) - {_middle(bits)}, vf)"


def _unpack(isa: Isa, shape: TileShape, bits: int) -> str:
    """Decodes codes from k0 on of panel p to ``to[k][NR]``: minus their zero points, scaled."""
    count, vectors = WORD // bits, range(shape.vectors)
    loads = "".join(f"            const vi x{v} = vi_load(word + {v} * VL);\n" for v in vectors)

    def store(number: str, at: str, v: int) -> str:
        return f"                vf_store(to + {at}{v} * VL, ({number} - d{v}) * s{v});\n"

    numbers = ((j, v, _number(isa, bits, f"x{v}", j)) for j in range(count) for v in vectors)
    whole = "".join(store(number, f"{j} * NR + ", v) for j, v, number in numbers)
    part = "".join(store(_shifted(bits, f"x{v}", "right"), "", v) for v in vectors)
    scales = "".join(f"        const vf s{v} = vf_load(q->scales + at + {v} * VL);\n" for v in vectors)
    zeros = "".join(
        f"        const vf d{v} = zeros_at(q, at + {v} * VL, {_middle(bits)});\n" for v in vectors
    )
    return f"""
static void unpack_{bits}(const struct codes *q, int64_t p, int64_t k0, int64_t depth, float *to) {{
{_table(isa, bits)}    const int64_t end = k0 + depth;
    for (int64_t k = k0; k < end;) {{
        const int64_t block = k / q->block, stop = smaller(end, (block + 1) * q->block);
        const int64_t at = (p * q->blocks + block) * NR;
{scales}{zeros}        while (k < stop) {{
            const int32_t *word = q->words + (p * q->panel_words + k / {count}) * NR;
{loads}            if (k % {count} == 0 && k + {count} <= stop) {{
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
    """``rows`` rows of A times one panel. ``sums``: those of A over each block, used if there are zero
    points.
    """
    count, vectors = WORD // bits, range(shape.vectors)
    cells = [(r, v) for r in range(rows) for v in vectors]
    loads = "".join(f"            const vi x{v} = vi_load(word + {v} * VL);\n" for v in vectors)
    fetches = "".join(
        f"            __builtin_prefetch(word + {_AHEAD + 16 * line}, 0, 3);\n"
        for line in range(shape.columns(isa) // 16)
    )
    turn = "".join(
        _products(cells, str(j), [_number(isa, bits, f"x{v}", j) for v in vectors]) for j in range(count)
    )
    shifted = _products(cells, "j", [_shifted(bits, f"x{v}", "right") for v in vectors])
    rest = shifted.replace("\n", "\n    ").rstrip(" ")
    pointers = ", ".join(f"*a{r} = a + {r} * lda" for r in range(rows))
    advance = ", ".join(f"a{r} += {count}" for r in range(rows))
    newline = "\n"
    return f"""
static void stream_{bits}_{rows}(const struct codes *q, int64_t p, int64_t k, const float *a, int64_t lda,
                       const float *sums, const struct tile *t) {{
{_table(isa, bits)}    const float {pointers};
    const int32_t *word = q->words + p * q->panel_words * NR;
    (void)lda;
{newline.join(start_sums(rows, shape.vectors, 1))}
    for (int64_t b = 0, at = p * q->blocks * NR; b < q->blocks; b++, at += NR) {{
        vf {", ".join(f"e{r}_{v} = {{0}}" for r, v in cells)};
{newline.join(subtract_zeros(cells, vectors, str(_middle(bits))))}
        int64_t left_over = smaller(q->block, k - b * q->block);
        for (; left_over >= {count}; left_over -= {count}, word += NR, {advance}) {{
{fetches}{loads}{turn}        }}
        if (left_over) {{
{loads}            for (int64_t j = 0; j < left_over; j++) {{
                const int right = (int)({bits} * j);
    {rest}            }}
        }}
{newline.join(add_scaled(cells, vectors))}
    }}
{newline.join(store_sums(rows, shape.vectors))}
}}
"""


def _products(cells: Sequence[tuple[int, int]], number: str, weights: Sequence[str]) -> str:
    """The products of element ``number`` of each row of A with ``weights``, one vector each."""
    lines = [f"                const vf w{v} = {w};" for v, w in enumerate(weights)]
    lines += [f"                const vf y{r} = vf_set1(a{r}[{number}]);" for r in dict(cells)]
    lines += [f"                ACCUMULATE(e{r}_{v}, y{r}, w{v});" for r, v in cells]
    return "\n".join(["            {", *lines, "            }"]) + "\n"
