"""Scaled dot-product attention in one launch, f32, any strides: softmax(scale * q @ k^T + mask) @ v.

Flash-style (Dao et al., "FlashAttention", 2022): keys are taken a block at a time, the softmax is carried on
from block to block (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018), and scores
never leave the first-level cache.

A unit of the grid is ``UNIT_TILES`` tiles of rows of one batch and one head of keys; the rows of all
heads of queries that share that head of keys stand below each other. Neighbouring units of a chunk are
computed together, so that a packed block of keys serves all of them. Tiles and blocks depend on the sizes
alone, so any chunking gives the same bits.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.library.extent import BITS, SIGNED, Extent, Reach, arguments, within
from graphwright.kernels.library.tile import HELPERS, transpose
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, prelude
from graphwright.targets.cpu.vmath import vmath

SYMBOL: Final = "gw_attention_f32"
OPERANDS: Final = ("q", "k", "v", "mask", "y")
"""``mask`` is added to the scores; it may be absent."""

KEY_BLOCK: Final = 256
"""Keys of a block at most; more are cut into blocks of nearly equal length."""
_PITCH: Final = KEY_BLOCK + 16
"""Elements between rows of scores and of packed queries: rows fall into different cache sets."""
_UNIT_TILES: Final = 4
_RUN_UNITS: Final = 16
"""Units computed together at most: what the sums have room for."""
_ROWS_AHEAD: Final = 12
"""How far ahead rows of values are fetched while they are copied."""

Four = tuple[Dim, Dim, Dim, Dim]


class Guard(IntEnum):
    """What a row of the result is whose softmax is not a number."""

    NONE = 0
    NAN = 1
    """NaN is 0, whatever it comes from."""
    EMPTY = 2
    """0 where every score is -inf."""


@dataclass(frozen=True)
class Attention:
    """Sizes and strides (in elements) of one call; strides by batch, head, row and feature."""

    batch: Dim
    heads: Dim
    kv_heads: Dim
    """Divides ``heads``: query head h reads head ``h // (heads // kv_heads)`` of keys and values."""
    queries: Dim
    keys: Dim
    depth: Dim
    width: Dim
    """Features of a value."""
    q_strides: Four
    k_strides: Four
    v_strides: Four
    y_strides: Four
    mask_strides: Four = (0, 0, 0, 0)
    """By batch, head, query and key; 0 broadcasts."""
    scale: float = 1.0
    softcap: float = 0.0
    """Scores are ``softcap * tanh(score / softcap)`` before the mask, unless 0."""
    causal: bool = False
    """Query i sees keys up to ``i + offset`` alone."""
    offset: Dim = 0
    guard: Guard = Guard.NONE

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            *(self.batch, self.heads, self.kv_heads, self.queries, self.keys, self.depth, self.width),
            *(*self.q_strides, *self.k_strides, *self.v_strides, *self.mask_strides, *self.y_strides),
            *(double_bits(self.scale), double_bits(self.softcap)),
            *(int(self.causal), self.offset, int(self.guard)),
        )

    @property
    def _rows(self) -> Dim:
        """Rows of queries that share a head of keys."""
        return floordiv(self.heads, self.kv_heads) * self.queries

    def grid(self, isa: Isa) -> Dim:
        return self.batch * self.kv_heads * ceildiv(ceildiv(self._rows, tile_rows(isa)), _UNIT_TILES)

    def scratch_bytes(self, isa: Isa) -> Dim:
        """A block of keys and of values in panels, tiles of queries and scores, and the sums of a run."""
        tile, panel = tile_rows(isa), panel_columns(isa)
        keys = minimum(ceildiv(self.keys, panel) * panel, KEY_BLOCK)
        width = ceildiv(self.width, panel) * panel
        rows = minimum(self._rows, _RUN_UNITS * _UNIT_TILES * tile) + 2 * tile + 16
        tiles = (maximum(ceildiv(self.depth, KEY_BLOCK), 1) + 1) * tile
        sums = ceildiv(self.width, KEY_BLOCK) * rows
        return 4 * (keys * (self.depth + width) + (tiles + sums) * _PITCH + 2 * rows)

    def work_ns(self, isa: Isa) -> Dim:
        """Bound by the FMAs of both products (80 or 45 GFLOP/s), or by reading keys and values."""
        speed = 40 if isa.vector_bytes == 64 else 22
        products = self.batch * self.heads * self.queries * self.keys * (self.depth + self.width)
        read = self.batch * self.kv_heads * self.keys * (self.depth + self.width)
        return maximum(ceildiv(products, speed * (1 + int(self.causal))), ceildiv(4 * read, 10))


def tile_rows(isa: Isa) -> int:
    """12 x 2 vectors of sums fill 24 of 32 registers, 6 x 2 fill 12 of 16."""
    return 12 if isa.vector_bytes == 64 else 6


def panel_columns(isa: Isa) -> int:
    """Columns of a tile, and of a panel of keys or values."""
    return 2 * isa.lanes


_STRIDES: Final = tuple(
    f"{x}_{axis}" for x in ("q", "k", "v", "mask", "y") for axis in ("batch", "head", "row", "col")
)
_ARGS: Final = (
    *("batch", "heads", "kv_heads", "queries", "keys", "depth", "width"),
    *(*_STRIDES, "scale", "softcap", "causal", "offset", "guard"),
)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches."""
    a = arguments(*_ARGS)
    sizes = {
        "q": (a.batch, a.heads, a.queries, a.depth),
        "k": (a.batch, a.kv_heads, a.keys, a.depth),
        "v": (a.batch, a.kv_heads, a.keys, a.width),
        "mask": (a.batch, a.heads, a.queries, a.keys),
        "y": (a.batch, a.heads, a.queries, a.width),
    }
    strides = {x: tuple(getattr(a, f"{x}_{axis}") for axis in ("batch", "head", "row", "col")) for x in sizes}
    call = Attention(
        *(a.batch, a.heads, a.kv_heads, a.queries, a.keys, a.depth, a.width),
        *((0, 0, 0, 0),) * 4,
    )
    return (
        Extent(
            SYMBOL,
            _ARGS,
            tuple(
                Reach(4, tuple(zip(sizes[x], strides[x], strict=True)), optional=x == "mask") for x in sizes
            ),
            grid=call.grid(isa),
            scratch=call.scratch_bytes(isa),
            bounds=within(SIGNED, *_STRIDES, "offset") | within(BITS, "scale", "softcap"),
        ),
    )


def source(isa: Isa) -> str:
    """One C11 file with ``gw_attention_f32``."""
    tile, register = tile_rows(isa), "v" if isa.vector_bytes == 64 else "x"
    constants = f"""
#define MR {tile} /* rows of a tile */
#define NR {panel_columns(isa)} /* columns of a tile, and of a panel */
#define KEY_BLOCK {KEY_BLOCK}
#define PITCH {_PITCH}
#define UNIT_TILES {_UNIT_TILES}
#define RUN_UNITS {_RUN_UNITS}
#define ROWS_AHEAD {_ROWS_AHEAD}
/* Kept in their order: where GCC moves broadcasts ahead, sums no longer fit the registers. */
#define BROADCAST(x, p) __asm__ volatile("vbroadcastss %1, %0" : "={register}"(x) : "m"(p))
#define ACCUMULATE(c, a, b) \\
    __asm__ volatile("vfmadd231ps %1, %2, %0" : "+{register}"(c) : "{register}"(a), "{register}"(b))
enum {{ {", ".join(f"GUARD_{guard.name} = {guard.value}" for guard in Guard)} }};
"""
    functions = vmath(isa, ("exp", "tanh"))
    reductions = _reduction(isa, "vf_largest", "vf_larger(x, y)") + _reduction(isa, "vf_total", "x + y")
    products = "".join(_product(rows, vectors) for rows in range(1, tile + 1) for vectors in (1, 2))
    products += _table(tile)
    words = {
        "L": str(isa.lanes),
        "R": register,
        "REDUCTIONS": reductions,
        "POWERS": _powers(isa, "vf_power", 1) + _powers(isa, "vf_powers", 4),
    }
    body = re.sub(r"@(\w+)@", lambda m: words[m[1]], _BODY)
    return "\n".join([prelude(isa), functions, constants, HELPERS, products, transpose(isa), body])


_LATENCY_BOUND: Final = 8
"""Independent sums that keep two FMA units of latency 4 busy."""


def _product(rows: int, vectors: int) -> str:
    """C function: c[rows][vectors * VL] = a[rows][k] @ b[k][NR], or added to it; sums stay in registers.

    Rows of a and c are PITCH apart. Few rows split k over several sets of sums, else each FMA would wait for
    the last.
    """
    splits = min(4, -(-_LATENCY_BOUND // (rows * vectors)))
    turn = max(splits, 2)
    cells = [(r, v) for r in range(rows) for v in range(vectors)]
    lines = [
        f"static void product_{rows}x{vectors}(int64_t k, const float *a, const float *b, float *c,",
        "    int add) {",
        "    vf x;",
        *(f"    vf c{r}_{v}_0 = {{0}};" for r, v in cells),
        "    if (add) {",
        *(f"        c{r}_{v}_0 = vf_load(c + {r} * PITCH + {v} * VL);" for r, v in cells),
        "    }",
        *(f"    vf c{r}_{v}_{s} = {{0}};" for r, v in cells for s in range(1, splits)),
        f"    for (; k >= {turn}; k -= {turn}, a += {turn}, b += {turn} * NR) {{",
        *(line for step in range(turn) for line in _step(rows, vectors, step, step % splits)),
        "    }",
        "    for (; k > 0; k--, a++, b += NR) {",
        *_step(rows, vectors, 0, 0),
        "    }",
        *(f"    c{r}_{v}_0 += c{r}_{v}_{s};" for s in range(1, splits) for r, v in cells),
        *(f"    vf_store(c + {r} * PITCH + {v} * VL, c{r}_{v}_0);" for r, v in cells),
    ]
    return "\n".join([*lines, "}", ""])


def _step(rows: int, vectors: int, step: int, split: int) -> list[str]:
    """The FMAs of the k that is ``step`` ahead."""
    lines = ["        {"]
    lines += [f"            const vf b{v} = vf_load(b + {step} * NR + {v} * VL);" for v in range(vectors)]
    for r in range(rows):
        lines += [f"            BROADCAST(x, a[{r} * PITCH + {step}]);"]
        lines += [f"            ACCUMULATE(c{r}_{v}_{split}, x, b{v});" for v in range(vectors)]
    return [*lines, "        }"]


def _table(tile: int) -> str:
    rows = ",\n".join(f"    {{product_{r}x1, product_{r}x2}}" for r in range(1, tile + 1))
    return f"""\
/* product_of[rows - 1][vectors - 1] */
typedef void (*product)(int64_t k, const float *a, const float *b, float *c, int add);
static const product product_of[MR][2] = {{
{rows},
}};
"""


def _reduction(isa: Isa, name: str, combined: str) -> str:
    """C function that combines the lanes of a vector, by halves."""
    lines, half = [f"GW_INLINE float {name}(vf x) {{", "    vf y;"], isa.lanes // 2
    while half:
        order = ", ".join(str((lane + half) % isa.lanes) for lane in range(isa.lanes))
        lines += [f"    y = __builtin_shufflevector(x, x, {order});", f"    x = {combined};"]
        half //= 2
    return "\n".join([*lines, "    return x[0];", "}", ""])


def _powers(isa: Isa, name: str, count: int) -> str:
    """C function: exp(x) for x <= 0, NaN stays NaN; several side by side, since each step waits for the last.

    Range reduction and polynomial are those of ``vmath``'s exp; what would be subnormal is rounded once more.
    """
    steps = (
        ("x", "vf_larger(vf_set1(-104.0f), x)"),  # below: zero
        ("n", "x * 1.44269504f + 12582912.0f"),
        ("n", "n - 12582912.0f"),
        ("x", "x - n * 0.693147182f"),
        ("x", "x - n * -1.90465421e-9f"),
        *(("y", term) for term in ("x * 0.0013940561f + 0.00836883f", "y * x + 0.041666403f")),
        *(("y", term) for term in ("y * x + 0.1666652f", "y * x + 0.5f", "x * y", "x * y + x", "y + 1.0f")),
        ("x", f"scale_f32x{isa.lanes}(y, n)"),
    )
    one = count == 1
    lines = [f"GW_INLINE {'vf' if one else 'void'} {name}(vf {'x0' if one else '*x'}) {{"]
    lines += [f"    vf x{i} = x[{i}];" for i in range(count) if not one]
    lines += [f"    vf {', '.join(f'n{i}, y{i}' for i in range(count))};"]
    for result, expression in steps:
        numbered = [re.sub(r"\b([nxy])\b", rf"\g<1>{i}", expression) for i in range(count)]
        lines += [f"    {result}{i} = {text};" for i, text in enumerate(numbered)]
    lines += ["    return x0;"] if one else [f"    x[{i}] = x{i};" for i in range(count)]
    return "\n".join([*lines, "}", ""])


_BODY: Final = """
typedef struct {
    int64_t batch, heads, kv_heads, queries, keys, depth, width;
    int64_t q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col, v_batch, v_head, v_row, v_col;
    int64_t mask_batch, mask_head, mask_row, mask_col, y_batch, y_head, y_row, y_col;
    double scale, softcap;
    int64_t causal, offset, guard;
} attention;

/* The operands at one batch and one head of keys, and what a run has computed of them so far. */
typedef struct {
    const float *q, *k, *v, *mask;
    float *y;
    float *keys, *values; /* the block at hand: panels [depth][NR] and [keys][NR] */
    float *queries, *scores; /* a tile */
    float *sums, *largest, *total; /* of each row of the run */
    const float *next_k, *next_v; /* of the head after the run, if the chunk goes on */
    int64_t rows; /* of the run; sums are [width / KEY_BLOCK][rows][PITCH] */
} head;

/* A block of keys. */
typedef struct {
    int64_t first, count;
} block;

/* A row of queries. */
typedef struct {
    const float *q, *mask;
    float *y;
    int64_t limit; /* of the keys that it sees */
} place;

/* The larger; b where one is NaN. */
GW_INLINE vf vf_larger(vf a, vf b) {
    vf y;
    __asm__("vmaxps %2, %1, %0" : "=@R@"(y) : "@R@"(a), "@R@"(b));
    return y;
}

@REDUCTIONS@

@POWERS@
/* The first n elements, at most a vector. */
GW_INLINE vf load_upto(const float *p, int64_t n) { return n == VL ? vf_load(p) : vf_load_n(p, n); }

/* Rows that will be read or written soon, n elements of each. */
GW_INLINE void fetch_rows(const float *x, int64_t x_row, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j += 16)
            __builtin_prefetch(x + r * x_row + j, 0, 2);
}

/* Panels to[col / NR][rows][NR] of x[rows][cols], whose rows are dense; zeros beyond. */
static void copy_panels(const float *x, int64_t x_row, int64_t rows, int64_t cols, float *to, int64_t apart) {
    for (int64_t r = 0; r < rows; r++, x += x_row, to += NR) {
        fetch_rows(x + ROWS_AHEAD * x_row, 0, 1, cols);
        float *panel = to;
        for (int64_t col = 0; col < cols; col += NR, panel += apart)
            for (int64_t c = 0; c < NR; c += VL) {
                const int64_t n = smaller(VL, cols - col - c);
                vf_store(panel + c, n > 0 ? load_upto(x + col + c, n) : (vf){0});
            }
    }
}

/* Panels to[col / NR][rows][NR] of x[rows][cols], zeros beyond; panels lie apart elements apart. */
static void pack_panels(const float *x, int64_t x_row, int64_t x_col, int64_t rows, int64_t cols, float *to,
                        int64_t apart) {
    if (x_col == 1) {
        copy_panels(x, x_row, rows, cols, to, apart);
        return;
    }
    for (int64_t col = 0; col < cols; col += NR, to += apart) {
        for (int64_t c = 0; c < NR; c += VL) {
            const int64_t n = smaller(VL, cols - col - c);
            const float *from = x + (col + c) * x_col;
            float *panel = to + c;
            if (n <= 0) {
                for (int64_t r = 0; r < rows; r++)
                    vf_store(panel + r * NR, (vf){0});
            } else if (x_row == 1) {
                fetch_rows(from + VL * x_col, x_col, VL, rows);
                for (int64_t r = 0; r < rows; r += VL)
                    transpose(from + r, x_col, n, smaller(VL, rows - r), panel + r * NR, NR);
            } else {
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t i = 0; i < VL; i++)
                        panel[r * NR + i] = i < n ? from[r * x_row + i * x_col] : 0;
            }
        }
    }
}

static void pack_block(const attention *t, const head *h, const block *b, int64_t length) {
    pack_panels(h->k + b->first * t->k_row, t->k_col, t->k_row, t->depth, b->count, h->keys, t->depth * NR);
    pack_panels(h->v + b->first * t->v_row, t->v_row, t->v_col, b->count, t->width, h->values, length * NR);
}

/* One row of queries times the scale, in parts of KEY_BLOCK that lie MR * PITCH apart. */
static void scale_query(const attention *t, const float *from, float *to) {
    const vf scale = vf_set1((float)t->scale);
    for (int64_t d0 = 0; d0 < t->depth; d0 += KEY_BLOCK, to += MR * PITCH) {
        const int64_t n = smaller(KEY_BLOCK, t->depth - d0);
        const float *part = from + d0 * t->q_col;
        if (t->q_col != 1) {
            for (int64_t j = 0; j < n; j++)
                to[j] = part[j * t->q_col] * (float)t->scale;
            continue;
        }
        int64_t j = 0;
        for (; j + VL <= n; j += VL)
            vf_store(to + j, vf_load(part + j) * scale);
        if (j < n)
            vf_store_n(to + j, vf_load_n(part + j, n - j) * scale, n - j);
    }
}

/* What the mask adds to n <= VL scores from column j on. */
GW_INLINE vf mask_at(const attention *t, const float *row, int64_t j, int64_t n) {
    float lane[VL] = {0};
    if (t->mask_col == 0)
        return vf_set1(*row);
    if (t->mask_col == 1)
        return load_upto(row + j, n);
    for (int64_t i = 0; i < n; i++)
        lane[i] = row[(j + i) * t->mask_col];
    return vf_load(lane);
}

/* Scores with softcap and mask, -inf from column n up to a whole vector; the largest. */
GW_INLINE float finish_scores(const attention *t, const float *mask, int64_t n, float *s) {
    const vf below = vf_set1(-__builtin_inff());
    const vf cap = vf_set1((float)t->softcap), inverse = vf_set1(1.0f / (float)t->softcap);
    vf most = below;
    if (!mask && t->softcap == 0) {
        int64_t j = 0;
        for (; j + VL <= n; j += VL)
            most = vf_larger(vf_load(s + j), most);
        if (j < n) {
            const vf x = vf_select(vi_first(n - j), vf_load(s + j), below);
            vf_store(s + j, x);
            most = vf_larger(x, most);
        }
        return vf_largest(most);
    }
    for (int64_t j = 0; j < n; j += VL) {
        const int64_t m = smaller(VL, n - j);
        vf x = vf_load(s + j);
        if (t->softcap != 0)
            x = cap * tanh_f32x@L@(x * inverse);
        if (mask)
            x += mask_at(t, mask, j, m);
        if (m < VL)
            x = vf_select(vi_first(m), x, below);
        vf_store(s + j, x);
        most = vf_larger(x, most);
    }
    return vf_largest(most);
}

/* s = exp(s - largest) up to column n, zeros from there to column end; their sum. */
GW_INLINE float exponentials(float largest, int64_t n, int64_t end, float *s) {
    const vf shift = vf_set1(largest);
    vf total = {0};
    int64_t j = 0;
    for (; j + 3 * VL < n; j += 4 * VL) {
        vf e[4];
        for (int i = 0; i < 4; i++)
            e[i] = vf_load(s + j + i * VL) - shift;
        vf_powers(e);
        for (int i = 0; i < 4; i++)
            vf_store(s + j + i * VL, e[i]);
        total += (e[0] + e[1]) + (e[2] + e[3]);
    }
    for (; j < n; j += VL) {
        const vf e = vf_power(vf_load(s + j) - shift);
        total += e;
        vf_store(s + j, e);
    }
    for (; j < end; j += VL)
        vf_store(s + j, (vf){0});
    return vf_total(total);
}

/* Keys of the block that a row sees. */
GW_INLINE int64_t visible(const place *p, const block *b) {
    const int64_t n = smaller(p->limit - b->first, b->count);
    return n < 0 ? 0 : n;
}

static void score_tile(const attention *t, const head *h, const place *p, int64_t rows, int64_t end) {
    for (int64_t r = 0; r < rows; r++)
        scale_query(t, p[r].q, h->queries + r * PITCH);
    fetch_rows(p[0].q + rows * t->q_row, t->q_row, rows, t->depth); /* usually the next tile */
    for (int64_t j = 0; j < end; j += NR) {
        const product multiply = product_of[rows - 1][end - j > VL];
        const float *keys = h->keys + j * t->depth;
        int64_t d0 = 0;
        do {
            multiply(smaller(KEY_BLOCK, t->depth - d0), h->queries + d0 / KEY_BLOCK * MR * PITCH,
                     keys + d0 * NR, h->scores + j, d0 > 0);
            d0 += KEY_BLOCK;
        } while (d0 < t->depth);
    }
}

/* Sums of a row from column j on. */
GW_INLINE float *sum_of(const head *h, int64_t in_run, int64_t j) {
    return h->sums + j / KEY_BLOCK * h->rows * PITCH + in_run * PITCH + j % KEY_BLOCK;
}

/* Scores to powers; the sums so far are brought to the new largest scores. */
static void soften_tile(const attention *t, const head *h, const block *b, const place *p, int64_t rows,
                        int64_t in_run, int64_t end) {
    float drop[VL] = {0}, keep[VL], shift[VL];
    for (int64_t r = 0; r < rows; r++) {
        const float *mask = p[r].mask ? p[r].mask + b->first * t->mask_col : NULL;
        const float found = finish_scores(t, mask, visible(p + r, b), h->scores + r * PITCH);
        const float before = h->largest[in_run + r], largest = found > before ? found : before;
        shift[r] = largest == -__builtin_inff() ? 0 : largest;
        drop[r] = before - shift[r];
        h->largest[in_run + r] = largest;
    }
    vf_store(keep, vf_power(vf_load(drop)));
    for (int64_t r = 0; r < rows; r++) {
        const float total = exponentials(shift[r], visible(p + r, b), end, h->scores + r * PITCH);
        h->total[in_run + r] = h->total[in_run + r] * keep[r] + total;
        if (keep[r] == 1 || b->first == 0)
            continue;
        for (int64_t j = 0; j < t->width; j += VL) {
            float *sum = sum_of(h, in_run + r, j);
            vf_store(sum, vf_load(sum) * keep[r]);
        }
    }
}

static void add_values(const attention *t, const head *h, int64_t rows, int64_t in_run, int64_t end,
                       int64_t length) {
    for (int64_t j = 0; j < t->width; j += NR)
        product_of[rows - 1][t->width - j > VL](end, h->scores, h->values + j * length,
                                                sum_of(h, in_run, j), 1);
}

/* A row of a softmax of zeros: 0 times each value, which may not be finite. */
static void add_zeros(const attention *t, const head *h, int64_t in_run) {
    for (int64_t c = 0; c < t->width; c++) {
        float *sum = sum_of(h, in_run, c);
        *sum = 0;
        for (int64_t j = 0; j < t->keys; j++)
            *sum += 0 * h->v[j * t->v_row + c * t->v_col];
    }
}

static void store_row(const attention *t, const head *h, float *y, int64_t in_run) {
    const float total = h->total[in_run];
    const int guarded = t->guard == GUARD_NAN     ? !(total > 0)
                        : t->guard == GUARD_EMPTY ? total == 0
                                                  : 0;
    if (guarded)
        add_zeros(t, h, in_run);
    const vf share = vf_set1(guarded || t->keys == 0 ? 1 : 1 / total);
    for (int64_t j = 0; j < t->width; j += VL) {
        const vf x = vf_load(sum_of(h, in_run, j)) * share;
        const int64_t n = smaller(VL, t->width - j);
        if (t->y_col == 1 && n == VL) {
            vf_store(y + j, x);
        } else if (t->y_col == 1) {
            vf_store_n(y + j, x, n);
        } else {
            for (int64_t i = 0; i < n; i++)
                y[(j + i) * t->y_col] = x[i];
        }
    }
}

/* Where rows of queries from row on are; how many keys they see at most. */
static int64_t find_rows(const attention *t, const head *h, int64_t row, int64_t rows, place *p) {
    int64_t in_group = quotient(row, t->queries), query = row - in_group * t->queries, most = 0;
    for (int64_t r = 0; r < rows; r++) {
        p[r].q = h->q + in_group * t->q_head + query * t->q_row;
        p[r].mask = h->mask ? h->mask + in_group * t->mask_head + query * t->mask_row : NULL;
        p[r].y = h->y + in_group * t->y_head + query * t->y_row;
        p[r].limit = t->causal ? query + t->offset + 1 : t->keys;
        most = p[r].limit > most ? p[r].limit : most;
        if (++query == t->queries) {
            query = 0;
            in_group++;
        }
    }
    return most;
}

/* A share of the keys and values that are packed next. */
static void fetch_share(const attention *t, const head *h, const block *b, int64_t length, int64_t share,
                        int64_t shares) {
    const int64_t first = b->first + length < t->keys ? b->first + length : 0;
    const float *k = first ? h->k : h->next_k, *v = first ? h->v : h->next_v;
    const int64_t count = smaller(length, t->keys - first);
    const int64_t row0 = first + cut(count, share, shares);
    const int64_t rows = first + cut(count, share + 1, shares) - row0;
    if (k && t->k_col == 1)
        fetch_rows(k + row0 * t->k_row, t->k_row, rows, t->depth);
    if (v && t->v_col == 1)
        fetch_rows(v + row0 * t->v_row, t->v_row, rows, t->width);
}

/* Tiles [tile0, tile1) of the rows of one batch and head of keys. */
static void run_tiles(const attention *t, head *h, int64_t tile0, int64_t tile1, int64_t rows,
                      float *scratch) {
    const int64_t tiles = parts(rows, MR), row0 = cut(rows, tile0, tiles), row1 = cut(rows, tile1, tiles);
    const int64_t blocks = parts(t->keys, KEY_BLOCK);
    const int64_t length = blocks ? parts(parts(t->keys, blocks), NR) * NR : 0;
    place p[MR];
    h->rows = row1 - row0;
    h->keys = scratch;
    h->values = h->keys + length * t->depth;
    h->scores = h->values + length * parts(t->width, NR) * NR;
    h->queries = h->scores + MR * PITCH;
    h->sums = h->queries + (t->depth ? parts(t->depth, KEY_BLOCK) : 1) * MR * PITCH;
    h->largest = h->sums + parts(t->width, KEY_BLOCK) * h->rows * PITCH;
    h->total = h->largest + h->rows;
    for (int64_t r = 0; r < h->rows; r++) {
        for (int64_t j = 0; j < t->width; j += VL)
            vf_store(sum_of(h, r, j), (vf){0});
        h->largest[r] = -__builtin_inff();
        h->total[r] = 0;
    }
    block b = {0, 0};
    do {
        b.count = smaller(length, t->keys - b.first);
        const int last = b.first + length >= t->keys;
        int packed = 0;
        for (int64_t i = tile0; i < tile1; i++) {
            const int64_t row = cut(rows, i, tiles), count = cut(rows, i + 1, tiles) - row, at = row - row0;
            const int64_t end = smaller(find_rows(t, h, row, count, p) - b.first, b.count);
            if (end > 0 && !packed) {
                pack_block(t, h, &b, length);
                packed = 1;
            }
            if (end > 0) {
                score_tile(t, h, p, count, end);
                soften_tile(t, h, &b, p, count, at, end);
                if (last)
                    for (int64_t r = 0; r < count; r++)
                        fetch_rows(p[r].y, 0, 1, t->width);
                fetch_share(t, h, &b, length, i - tile0, tile1 - tile0);
                add_values(t, h, count, at, end, length);
            }
            if (last)
                for (int64_t r = 0; r < count; r++)
                    store_row(t, h, p[r].y, at + r);
        }
        b.first += length;
    } while (b.first < t->keys);
}

/* buf: q, k, v, mask, y. arg: the fields of attention. */
GW_EXPORT int32_t gw_attention_f32(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                   void *scratch) {
    attention t;
    memcpy(&t, arg, sizeof t);
    if (begin >= end)
        return 0;
    const int64_t group = t.heads / t.kv_heads, rows = group * t.queries, tiles = parts(rows, MR);
    const int64_t units = parts(tiles, UNIT_TILES);
    while (begin < end) {
        const int64_t unit = begin % units, kv = begin / units % t.kv_heads;
        const int64_t batch = begin / units / t.kv_heads;
        const int64_t run = smaller(smaller(end - begin, units - unit), RUN_UNITS);
        head h = {
            .q = (const float *)buf[0] + batch * t.q_batch + kv * group * t.q_head,
            .k = (const float *)buf[1] + batch * t.k_batch + kv * t.k_head,
            .v = (const float *)buf[2] + batch * t.v_batch + kv * t.v_head,
            .mask = buf[3],
            .y = (float *)buf[4] + batch * t.y_batch + kv * group * t.y_head,
        };
        if (begin + run < end && unit + run == units && kv + 1 < t.kv_heads) {
            h.next_k = h.k + t.k_head;
            h.next_v = h.v + t.v_head;
        }
        if (h.mask)
            h.mask += batch * t.mask_batch + kv * group * t.mask_head;
        run_tiles(&t, &h, cut(tiles, unit, units), cut(tiles, unit + run, units), rows, scratch);
        begin += run;
    }
    return 0;
}
"""
