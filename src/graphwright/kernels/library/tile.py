"""C text of the register tile that GEMM and convolution share: C[rows, cols] += A[rows, k] * B[k, cols].

The accumulators of one tile stay in registers for all of k: each step loads one row of B and broadcasts one
column of A (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from graphwright.kernels.library.isa import Isa

_UNROLL: Final = 2
"""Values of k per turn of the loop."""

_LATENCY_BOUND: Final = 8
"""Independent sums that keep two FMA units of latency 4 busy."""


HELPERS: Final = """\
GW_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
/* a / b for a >= 0, b > 0; usual sizes divide by 1 or fit 32 bits, where division takes half the time. */
GW_INLINE int64_t quotient(int64_t a, int64_t b) {
    if (b == 1)
        return a;
    return ((uint64_t)(a | b) >> 32) ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}
/* Parts of at most part that make up size >= 0. */
GW_INLINE int64_t parts(int64_t size, int64_t part) { return quotient(size + part - 1, part); }
/* Where part i begins when size is cut into count parts of nearly equal size. */
GW_INLINE int64_t cut(int64_t size, int64_t i, int64_t count) { return quotient(size * i, count); }

GW_INLINE void copy_row(const float *from, int64_t n, float *to) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(to + i, vf_load(from + i));
    if (i < n)
        vf_store_n(to + i, vf_load_n(from + i, n - i), n - i);
}
"""
"""C text of small functions that GEMM and the convolutions share."""


@dataclass(frozen=True)
class TileShape:
    """The largest tile: ``rows`` x ``vectors``; element (r, k) of A is at ``r * a_row + k * a_k``."""

    rows: int
    vectors: int
    a_row: int
    a_k: int

    def columns(self, isa: Isa) -> int:
        """Columns of the tile, and of a panel of B."""
        return self.vectors * isa.lanes


def tiles(shape: TileShape) -> str:
    """``run_tile(rows, vectors, k, a, b, ldb, &t)`` for every tile up to ``shape``; the struct ``tile``."""
    names = [[f"tile_{r}x{v}" for v in range(1, shape.vectors + 1)] for r in range(1, shape.rows + 1)]
    functions = [_tile(shape, r, v) for r in range(1, shape.rows + 1) for v in range(1, shape.vectors + 1)]
    table = ",\n".join(f"    {{{', '.join(row)}}}" for row in names)
    return f"""\
/* How a tile starts (from nothing, one number per row, or a whole tile) and where it goes. */
enum {{ FROM_ZERO, FROM_ROWS, FROM_TILE }};
struct tile {{
    int from_kind, relu;
    const float *from;
    float *to;
    int64_t from_ld, to_ld;
    const float *ahead; /* what a later tile reads: fetched to L2, a cache line per two steps of k */
}};

{"".join(functions)}
typedef void (*tile_fn)(int64_t k, const float *a, const float *b, int64_t ldb, const struct tile *t);
static const tile_fn tile_of[{shape.rows}][{shape.vectors}] = {{
{table},
}};

static void run_tile(int64_t rows, int64_t vectors, int64_t k, const float *a, const float *b, int64_t ldb,
                     const struct tile *t) {{
    tile_of[rows - 1][vectors - 1](k, a, b, ldb, t);
}}
"""


def _tile(shape: TileShape, rows: int, vectors: int) -> str:
    """One tile. A small one splits k over several sets of sums, else it would wait for each FMA."""
    splits = min(4, -(-_LATENCY_BOUND // (rows * vectors)))
    cells = [(r, v) for r in range(rows) for v in range(vectors)]
    lines = [
        f"static void tile_{rows}x{vectors}(int64_t k, const float *a, const float *b, int64_t ldb, "
        "const struct tile *t) {",
        "    const float *from = t->from, *ahead = t->ahead;",
    ]
    declared = ", ".join(f"c{r}_{v}_{s} = {{0}}" for r, v in cells for s in range(splits))
    lines += [f"    vf {declared};", "    if (t->from_kind == FROM_TILE) {"]
    for r in range(rows):
        lines += [f"        c{r}_{v}_0 = vf_load(from + {v} * VL);" for v in range(vectors)]
        lines += ["        from += t->from_ld;"] if r < rows - 1 else []
    lines += ["    } else if (t->from_kind == FROM_ROWS) {"]
    for r in range(rows):
        lines += [f"        c{r}_{v}_0 = vf_set1(*from);" for v in range(vectors)]
        lines += ["        from += t->from_ld;"] if r < rows - 1 else []
    lines += ["    }"]
    steps = max(splits, _UNROLL)
    lines += [f"    for (; k >= {steps}; k -= {steps}, a += {steps * shape.a_k}, b += {steps} * ldb) {{"]
    lines += ["        __builtin_prefetch(ahead, 0, 2);", f"        ahead += {8 * steps};"]
    for step in range(steps):
        lines += _step(shape, rows, vectors, step, step % splits)
    lines += ["    }"]
    lines += [
        f"    for (; k > 0; k--, a += {shape.a_k}, b += ldb) {{",
        *_step(shape, rows, vectors, 0, 0),
        "    }",
    ]
    for s in range(1, splits):
        lines += [f"    c{r}_{v}_0 += c{r}_{v}_{s};" for r, v in cells]
    lines += ["    if (t->relu) {"]
    lines += [f"        c{r}_{v}_0 = vf_relu(c{r}_{v}_0);" for r, v in cells]
    lines += ["    }", "    float *to = t->to;"]
    for r in range(rows):
        lines += [f"    vf_store(to + {v} * VL, c{r}_{v}_0);" for v in range(vectors)]
        lines += ["    to += t->to_ld;"] if r < rows - 1 else []
    return "\n".join([*lines, "}", "", ""])


def _step(shape: TileShape, rows: int, vectors: int, step: int, split: int) -> list[str]:
    """The FMAs of the k that is ``step`` ahead, into the sums of ``split``."""
    row = f"b + {step} * ldb" if step else "b"
    lines = ["        {"]
    lines += [f"            const vf b{v} = vf_load({row} + {v} * VL);" for v in range(vectors)]
    for r in range(rows):
        lines += [f"            const vf a{r} = vf_set1(a[{r * shape.a_row + step * shape.a_k}]);"]
        lines += [
            f"            c{r}_{v}_{split} = vf_fma(a{r}, b{v}, c{r}_{v}_{split});" for v in range(vectors)
        ]
    return [*lines, "        }"]


def transpose(isa: Isa) -> str:
    """``transpose(from, ld, rows, cols, to, to_ld)``: ``to[c][r] = from[r][c]`` for at most VL x VL elements.

    Writes all VL elements of each of the ``cols`` rows of ``to``, zeros where ``from`` has no row. Each
    round swaps the off-diagonal halves of blocks (Eklundh, "A Fast Computer Method for Matrix Transposing",
    1972).
    """
    lanes = isa.lanes
    names = [f"r{i}" for i in range(lanes)]
    lines = [
        "static void transpose(const float *from, int64_t ld, int64_t rows, int64_t cols, float *to,",
        "                      int64_t to_ld) {",
        f"    vf {', '.join(f'{name} = {{0}}' for name in names)}, x;",
        f"    if (rows == {lanes} && cols == {lanes}) {{",
        *(f"        {name} = vf_load(from + {i} * ld);" for i, name in enumerate(names)),
        "    } else {",
        *(
            f"        if (rows > {i}) {name} = vf_load_n(from + {i} * ld, cols);"
            for i, name in enumerate(names)
        ),
        "    }",
    ]
    distance = lanes // 2
    while distance:
        for i in (i for i in range(lanes) if not i & distance):
            low = [j if not j & distance else lanes + j - distance for j in range(lanes)]
            high = [j + distance if not j & distance else lanes + j for j in range(lanes)]
            a, b = names[i], names[i + distance]
            lines += [
                f"    x = __builtin_shufflevector({a}, {b}, {', '.join(map(str, low))});",
                f"    {b} = __builtin_shufflevector({a}, {b}, {', '.join(map(str, high))});",
                f"    {a} = x;",
            ]
        distance //= 2
    lines += [f"    if (cols > {i}) vf_store(to + {i} * to_ld, {name});" for i, name in enumerate(names)]
    return "\n".join([*lines, "}", ""])
