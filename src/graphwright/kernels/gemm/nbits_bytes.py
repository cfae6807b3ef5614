"""Codes of 8 bits, minus 128, as signed bytes: a panel has, for each k, one byte per column.

So vectors of codes can be widened when they are loaded, unlike words of four consecutive k.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from graphwright.ir.types import Layout
from graphwright.kernels.gemm.nbits_blocks import CHAINS, add_scaled, start_block, subtract_zeros
from graphwright.kernels.gemm.streams import clear_sums, store_sums
from graphwright.kernels.library.tile import TileShape
from graphwright.layout.transform import pack_jobs, packed_shape
from graphwright.targets.cpu.isa import Isa

Array = np.ndarray[Any, Any]
_UNROLL: Final = 4
"""Values of k per iteration of the loop."""
_AHEAD: Final = 4096
"""The prefetch distance, in bytes."""


def pack(out: Array, words: Array, layout: Layout) -> None:
    """Fills ``out`` with codes given as words u32[N, words]; ``layout``: the panels of columns."""
    codes = np.ascontiguousarray(words).view(np.uint8)
    panels = out.reshape(packed_shape(codes.shape, layout))
    for job in pack_jobs(panels, codes, layout):
        job()
    out ^= 0x80


def c_text(isa: Isa, shape: TileShape, rows: range) -> str:
    """The C functions ``unpack_8``, and ``stream_8`` for each number of rows."""
    return "".join([_unpack(shape), *(_stream(isa, shape, count) for count in rows)])


def _unpack(shape: TileShape) -> str:
    vectors = range(shape.vectors)
    lines = [
        "",
        "static void unpack_8(const struct codes *q, int64_t p, int64_t k0, int64_t depth, float *to) {",
        "    const int8_t *code = (const int8_t *)q->words + (p * q->panel_words * 4 + k0) * NR;",
        "    for (int64_t k = k0, end = k0 + depth; k < end;) {",
        "        const int64_t block = k / q->block, stop = smaller(end, (block + 1) * q->block);",
        "        const int64_t at = (p * q->blocks + block) * NR;",
        *(f"        const vf s{v} = vf_load(q->scales + at + {v} * VL);" for v in vectors),
        *(f"        const vf d{v} = zeros_at(q, at + {v} * VL, 128);" for v in vectors),
        "        for (; k < stop; k++, code += NR, to += NR) {",
        *(
            f"            vf_store(to + {v} * VL, (byte_numbers(code + {v} * VL) - d{v}) * s{v});"
            for v in vectors
        ),
        "        }",
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)


def _stream(isa: Isa, shape: TileShape, rows: int) -> str:
    """``rows`` rows of A times one panel. ``sums``: those of A over each block, used if there are zero
    points.
    """
    vectors = range(shape.vectors)
    cells = [(r, v) for r in range(rows) for v in vectors]
    lines = [
        "",
        f"static void stream_8_{rows}(const struct codes *q, int64_t p, int64_t k, const float *a,",
        "                       int64_t lda, const float *sums, const struct tile *t) {",
        f"    const float {', '.join(f'*a{r} = a + {r} * lda' for r in range(rows))};",
        "    const int8_t *code = (const int8_t *)q->words + p * q->panel_words * 4 * NR;",
        "    (void)lda;",
        *clear_sums(rows, shape.vectors),
        "    for (int64_t b = 0, at = p * q->blocks * NR; b < q->blocks; b++, at += NR) {",
        *start_block(cells, CHAINS),
        "        if (q->zeros) {",
        *subtract_zeros(cells, "zeros_at(q, at + {} * VL, 128)"),
        "        }",
        "        int64_t left = smaller(q->block, k - b * q->block);",
        *_loop(isa, shape, rows, _UNROLL),
        *_loop(isa, shape, rows, 1),
        *add_scaled(cells, CHAINS),
        "    }",
        *store_sums(rows, shape.vectors),
        "}",
        "",
    ]
    return "\n".join(lines)


def _loop(isa: Isa, shape: TileShape, rows: int, count: int) -> list[str]:
    """The loop over k in steps of ``count``."""
    advance = ", ".join([f"code += {count} * NR", *(f"a{r} += {count}" for r in range(rows))])
    fetched = range(0, count * shape.columns(isa), 64)
    body = [
        *(f"    __builtin_prefetch(code + {_AHEAD + at}, 0, 3);" for at in fetched),
        *(line for j in range(count) for line in ["    {", *_products(shape, rows, j), "    }"]),
    ]
    head = f"for (; left >= {count}; left -= {count}, {advance}) {{"
    return [f"        {line}" for line in [head, *body, "}"]]


def _products(shape: TileShape, rows: int, j: int) -> list[str]:
    """The products for one value of k."""
    vectors = range(shape.vectors)
    cells = [(r, v) for r in range(rows) for v in vectors]
    return [
        *(f"        const vf w{v} = byte_numbers(code + {j} * NR + {v} * VL);" for v in vectors),
        *(f"        const vf y{r} = vf_set1(a{r}[{j}]);" for r in range(rows)),
        *(f"        ACCUMULATE(e{r}_{v}_{j % CHAINS}, y{r}, w{v});" for r, v in cells),
    ]
