"""C text of the register tile that GEMM and convolution share: C[rows, cols] += A[rows, k] * B[k, cols].

The accumulators of one tile stay in registers for all of k: each step loads one row of B and broadcasts one
column of A (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from graphwright.kernels.library.isa import Isa

K_RUN: Final = 16
"""Values of k between prefetches, and between gaps in A."""

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
    """The largest tile: ``rows`` x ``vectors``; element (r, k) of A is at ``r * a_row + k * a_k``, and
    ``a_skip`` elements further for each whole :data:`K_RUN` values of k before it.

    ``unroll``: values of k per turn of the loop.
    """

    rows: int
    vectors: int
    a_row: int
    a_k: int
    a_skip: int = 0
    unroll: int = 2

    def columns(self, isa: Isa) -> int:
        """Columns of the tile, and of a panel of B."""
        return self.vectors * isa.lanes


_STRUCT: Final = """\
/* GCC would choose forms of the FMA that need moves between registers. */
#define ACCUMULATE(c, a, b) __asm__("vfmadd231ps %1, %2, %0" : "+v"(c) : "v"(a), "v"(b))

/* How a tile starts (from nothing, one number per row, or a whole tile) and where it goes. */
enum { FROM_ZERO, FROM_ROWS, FROM_TILE };
struct tile {
    int from_kind, relu;
    const float *from;
    float *to;
    int64_t from_ld, to_ld;
    const float *clip;  /* the lowest and the highest value stored, or NULL */
    const float *ahead;  /* what a later tile reads is fetched to L2 ... */
    int64_t ahead_lines; /* ... so many cache lines per @RUN@ values of k */
};
"""


def tiles(shape: TileShape) -> str:
    """``run_tile(rows, vectors, k, a, b, ldb, &t)`` for every tile up to ``shape``; the struct ``tile``."""
    names = [[f"tile_{r}x{v}" for v in range(1, shape.vectors + 1)] for r in range(1, shape.rows + 1)]
    functions = [_tile(shape, r, v) for r in range(1, shape.rows + 1) for v in range(1, shape.vectors + 1)]
    table = ",\n".join(f"    {{{', '.join(row)}}}" for row in names)
    return f"""\
{_STRUCT.replace("@RUN@", str(K_RUN))}
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
    splits = next(n for n in (1, 2, 4) if n * rows * vectors >= _LATENCY_BOUND or n == 4)
    steps = max(splits, shape.unroll)
    columns = [("b", f"{v} * VL") for v in range(vectors)]

    def step(number: int, split: int) -> list[str]:
        places = [f"{name} + {number} * ldb + {at}" for name, at in columns]
        numbers = [f"a[{r * shape.a_row + number * shape.a_k}]" for r in range(rows)]
        return _step(numbers, places, split)

    turn = [line for number in range(steps) for line in step(number, number % splits)]
    advance = f"a += {steps * shape.a_k}, b += {steps} * ldb"
    lines = [
        f"static void tile_{rows}x{vectors}(int64_t k, const float *a, const float *b, int64_t ldb, "
        "const struct tile *t) {",
        *_start(rows, vectors, splits),
        "    const float *ahead = t->ahead;",
        f"    for (; k >= {K_RUN}; k -= {K_RUN}, a += {shape.a_skip}) {{",
        "        for (int64_t i = 0; i < t->ahead_lines; i++, ahead += 16)",
        "            __builtin_prefetch(ahead, 0, 2);",
        f"        for (int i = 0; i < {K_RUN // steps}; i++, {advance}) {{",
        *turn,
        "        }",
        "    }",
        f"    for (; k >= {steps}; k -= {steps}, {advance}) {{",
        *turn,
        "    }",
        f"    for (; k > 0; k--, a += {shape.a_k}, b += ldb) {{",
        *step(0, 0),
        "    }",
    ]
    for split in range(1, splits):
        lines += [f"    c{r}_{v}_0 += c{r}_{v}_{split};" for r in range(rows) for v in range(vectors)]
    return "\n".join([*lines, *_finish(rows, vectors), "}", "", ""])


def streams(shape: TileShape, isa: Isa) -> str:
    """``stream_of[rows - 1][panels > 1](k, a, lda, b, stride, &t)``: few rows times panels of B side by side.

    Bound by reading B, whose panels are ``stride`` elements apart; as many as ``stream_panels[rows - 1]``
    are read together, or one. A stays where it is, with rows ``lda`` apart. The tile is as wide as its panels
    together. How many go together makes no difference to the bits.
    """
    counts = [_stream_panels(shape, rows) for rows in range(1, shape.rows + 1)]
    functions = [_stream(shape, isa, r + 1, n) for r, most in enumerate(counts) for n in sorted({1, most})]
    table = ",\n".join(f"    {{stream_{r + 1}x1, stream_{r + 1}x{n}}}" for r, n in enumerate(counts))
    return f"""\
{"".join(functions)}
typedef void (*stream_fn)(int64_t k, const float *a, int64_t lda, const float *b, int64_t stride,
                          const struct tile *t);
static const stream_fn stream_of[{shape.rows}][2] = {{
{table},
}};
/* Panels that are read side by side with so many rows of A. */
static const int8_t stream_panels[{shape.rows}] = {{{", ".join(map(str, counts))}}};
"""


def stream_cells(shape: TileShape, isa: Isa) -> int:
    """Elements of the largest tile of :func:`streams`."""
    return shape.columns(isa) * max(r * _stream_panels(shape, r) for r in range(1, shape.rows + 1))


def _stream_panels(shape: TileShape, rows: int) -> int:
    """As many of 4, 2, 1 as have room in the registers of the largest tile and a few more."""
    room = shape.rows * shape.vectors + 4 * (shape.rows > 8)
    return next(n for n in (4, 2, 1) if rows * shape.vectors * n <= room or n == 1)


def _stream(shape: TileShape, isa: Isa, rows: int, panels: int) -> str:
    columns = [(f"b{p}", f"{v} * VL") for p in range(panels) for v in range(shape.vectors)]
    width = shape.columns(isa)
    turn = shape.unroll

    def step(number: int) -> list[str]:
        places = [f"{name} + {number} * {width} + {at}" for name, at in columns]
        return _step([f"a{r}[{number}]" for r in range(rows)], places, 0)

    pointers = [f"*b{p} = b + {p} * stride" for p in range(panels)]
    pointers += [f"*a{r} = a + {r} * lda" for r in range(rows)]
    advance = [f"b{p} += @ * {width}" for p in range(panels)] + [f"a{r} += @" for r in range(rows)]
    lines = [
        f"static void stream_{rows}x{panels}(int64_t k, const float *a, int64_t lda, const float *b, "
        "int64_t stride, const struct tile *t) {",
        f"    const float {', '.join(pointers)};",
        "    (void)stride, (void)lda;",
        *_start(rows, len(columns), 1),
        "    const float *ahead = t->ahead;",
        f"    for (; k >= {turn}; k -= {turn}, {', '.join(advance).replace('@', str(turn))}) {{",
    ]
    fetches = [f"            __builtin_prefetch(ahead + {p} * stride, 0, 3);" for p in range(panels)]
    lines += ["        for (int64_t i = 0; i < t->ahead_lines; i++, ahead += 16) {", *fetches, "        }"]
    for number in range(turn):
        lines += step(number)
    rest = ", ".join(advance).replace("@", "1")
    lines += ["    }", f"    for (; k > 0; k--, {rest}) {{", *step(0), "    }"]
    return "\n".join([*lines, *_finish(rows, len(columns)), "}", "", ""])


def _start(rows: int, vectors: int, splits: int) -> list[str]:
    """The sums, from what the tile starts with."""
    cells = [(r, v, s) for r in range(rows) for v in range(vectors) for s in range(splits)]
    lines = ["    const float *from = t->from;"]
    lines += [f"    vf {', '.join(f'c{r}_{v}_{s} = {{0}}' for r, v, s in cells)};"]
    for kind, value in (("FROM_TILE", "vf_load(from + {} * VL)"), ("FROM_ROWS", "vf_set1(*from)")):
        lines += [f"    {'if' if kind == 'FROM_TILE' else '} else if'} (t->from_kind == {kind}) {{"]
        for r in range(rows):
            lines += [f"        c{r}_{v}_0 = {value.format(v)};" for v in range(vectors)]
            lines += ["        from += t->from_ld;"] if r < rows - 1 else []
    return [*lines, "    }"]


def _finish(rows: int, vectors: int) -> list[str]:
    """Activation and store."""
    cells = [f"c{r}_{v}_0" for r in range(rows) for v in range(vectors)]
    lines = ["    if (t->relu) {", *(f"        {c} = vf_relu({c});" for c in cells), "    }"]
    lines += [
        "    if (t->clip) {",
        "        const vf low = vf_set1(t->clip[0]), high = vf_set1(t->clip[1]);",
        *(f"        {c} = vf_min(vf_max({c}, low), high);" for c in cells),
        "    }",
        "    float *to = t->to;",
    ]
    for r in range(rows):
        lines += [f"    vf_store(to + {v} * VL, c{r}_{v}_0);" for v in range(vectors)]
        lines += ["    to += t->to_ld;"] if r < rows - 1 else []
    return lines


def _step(numbers: list[str], places: list[str], split: int) -> list[str]:
    """The FMAs of one k: ``numbers``, one per row of A, times the vectors of B at ``places``."""
    lines = ["        {"]
    lines += [f"            const vf x{v} = vf_load({place});" for v, place in enumerate(places)]
    for r, number in enumerate(numbers):
        lines += [f"            const vf y{r} = vf_set1({number});"]
        lines += [f"            ACCUMULATE(c{r}_{v}_{split}, y{r}, x{v});" for v in range(len(places))]
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
