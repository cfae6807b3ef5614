"""Scaled dot-product attention in one launch, f32, any strides: softmax(scale * q @ k^T + mask) @ v.

Flash-style (Dao et al., "FlashAttention", 2022): keys are taken a block at a time, the softmax is carried on
from block to block (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018), and scores
never leave the first-level cache.

A unit of the grid is ``UNIT_TILES`` tiles of rows of one batch and one head of keys; the rows of all heads of
queries that share that head of keys stand below each other. Neighbouring units of a chunk are computed
together, so that a packed block of keys serves all of them. Tiles and blocks depend on the sizes alone, so any
chunking gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.library.isa import Isa, prelude
from graphwright.kernels.library.tile import HELPERS, TileShape, tiles, transpose
from graphwright.kernels.vmath import vmath

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
        return self.batch * self.kv_heads * ceildiv(self._rows, _UNIT_TILES * tile_shape(isa).rows)

    def scratch_bytes(self, isa: Isa) -> Dim:
        """A block of keys and of values in panels, tiles of queries and scores, and the sums of a run."""
        shape = tile_shape(isa)
        panel = shape.columns(isa)
        keys = minimum(ceildiv(self.keys, panel) * panel, KEY_BLOCK)
        width = ceildiv(self.width, panel) * panel
        rows = minimum(self._rows, _RUN_UNITS * _UNIT_TILES * shape.rows) + 2 * shape.rows + 16
        blocks = maximum(ceildiv(self.depth, KEY_BLOCK), 1) + 1
        return 4 * (keys * (self.depth + width) + blocks * shape.rows * _PITCH + rows * (width + 2))

    def work_ns(self, isa: Isa) -> Dim:
        """Bound by the FMAs of both products (80 or 45 GFLOP/s), or by reading keys and values."""
        speed = 40 if isa.vector_bytes == 64 else 22
        products = self.batch * self.heads * self.queries * self.keys * (self.depth + self.width)
        read = self.batch * self.kv_heads * self.keys * (self.depth + self.width)
        return maximum(ceildiv(products, speed * (1 + int(self.causal))), ceildiv(4 * read, 10))


def tile_shape(isa: Isa) -> TileShape:
    """12 x 2 vectors fill 24 of 32 registers, 6 x 2 fill 12 of 16."""
    return TileShape(rows=12 if isa.vector_bytes == 64 else 6, vectors=2, a_row=_PITCH, a_k=1)


def source(isa: Isa) -> str:
    """One C11 file with ``gw_attention_f32``."""
    shape = tile_shape(isa)
    constants = f"""
#define MR {shape.rows} /* rows of a tile */
#define NR {shape.columns(isa)} /* columns of a tile, and of a panel */
#define KEY_BLOCK {KEY_BLOCK}
#define PITCH {_PITCH}
#define UNIT_TILES {_UNIT_TILES}
#define RUN_UNITS {_RUN_UNITS}
enum {{ {", ".join(f"GUARD_{guard.name} = {guard.value}" for guard in Guard)} }};
"""
    functions = vmath(isa, ("exp", "tanh"))
    body = _BODY.replace("@L@", str(isa.lanes)).replace("@R@", "v" if isa.vector_bytes == 64 else "x")
    return "\n".join([prelude(isa), functions, constants, HELPERS, tiles(shape), transpose(isa), body])


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
    int64_t columns; /* of a row of sums */
} head;

/* A block of keys. */
typedef struct {
    int64_t first, count;
} block;

/* The larger; b where one is NaN. */
GW_INLINE vf vf_larger(vf a, vf b) {
    vf y;
    __asm__("vmaxps %2, %1, %0" : "=@R@"(y) : "@R@"(a), "@R@"(b));
    return y;
}

GW_INLINE float vf_largest(vf x) {
    float lane[VL], y;
    vf_store(lane, x);
    y = lane[0];
    for (int i = 1; i < VL; i++)
        y = lane[i] > y ? lane[i] : y;
    return y;
}

/* Panels to[col / NR][rows][NR] of x[rows][cols], zeros beyond; panels lie apart elements apart. */
static void pack_panels(const float *x, int64_t x_row, int64_t x_col, int64_t rows, int64_t cols, float *to,
                        int64_t apart) {
    for (int64_t col = 0; col < cols; col += NR, to += apart) {
        for (int64_t c = 0; c < NR; c += VL) {
            const int64_t n = smaller(VL, cols - col - c);
            const float *from = x + (col + c) * x_col;
            float *panel = to + c;
            if (n <= 0) {
                for (int64_t r = 0; r < rows; r++)
                    vf_store(panel + r * NR, (vf){0});
            } else if (x_col == 1) {
                for (int64_t r = 0; r < rows; r++)
                    vf_store(panel + r * NR, n == VL ? vf_load(from + r * x_row) : vf_load_n(from + r * x_row, n));
            } else if (x_row == 1) {
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
        return n == VL ? vf_load(row + j) : vf_load_n(row + j, n);
    for (int64_t i = 0; i < n; i++)
        lane[i] = row[(j + i) * t->mask_col];
    return vf_load(lane);
}

/* Scores with softcap and mask, -inf from column n up to a whole vector; the largest so far. */
static float finish_scores(const attention *t, const float *mask, int64_t n, float *s, float largest) {
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
    } else {
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
    }
    const float found = vf_largest(most);
    return found > largest ? found : largest;
}

/* s = exp(s - largest) up to column n, zeros from there to column end; their sum. */
static float exponentials(float largest, int64_t n, int64_t end, float *s) {
    const vf shift = vf_set1(largest);
    vf total = {0};
    int64_t j = 0;
    for (; j < n; j += VL) {
        const vf e = exp_f32x@L@(vf_load(s + j) - shift);
        total += e;
        vf_store(s + j, e);
    }
    for (; j < end; j += VL)
        vf_store(s + j, (vf){0});
    return vf_sum(total);
}

static int64_t visible(const attention *t, int64_t row, const block *b) {
    if (!t->causal)
        return b->count;
    const int64_t n = row % t->queries + t->offset + 1 - b->first;
    return n < 0 ? 0 : smaller(n, b->count);
}

static void score_tile(const attention *t, const head *h, int64_t row, int64_t rows, int64_t end) {
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = row + r, in_group = at / t->queries, query = at % t->queries;
        scale_query(t, h->q + in_group * t->q_head + query * t->q_row, h->queries + r * PITCH);
    }
    for (int64_t j = 0; j < end; j += NR) {
        const float *keys = h->keys + j * t->depth;
        struct tile tile = {.from_kind = FROM_ZERO, .from = h->scores + j, .from_ld = PITCH,
                            .to = h->scores + j, .to_ld = PITCH, .ahead = keys};
        int64_t d0 = 0;
        do {
            run_tile(rows, parts(smaller(NR, end - j), VL), smaller(KEY_BLOCK, t->depth - d0),
                     h->queries + d0 / KEY_BLOCK * MR * PITCH, keys + d0 * NR, NR, &tile);
            tile.from_kind = FROM_TILE;
            d0 += KEY_BLOCK;
        } while (d0 < t->depth);
    }
}

/* Scores to powers; the sums so far are brought to the new largest scores. */
static void soften_tile(const attention *t, const head *h, const block *b, int64_t row, int64_t rows,
                        int64_t in_run, int64_t end) {
    float drop[VL] = {0}, largest[VL];
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = row + r, in_group = at / t->queries, query = at % t->queries;
        const float *mask = h->mask;
        if (mask)
            mask += in_group * t->mask_head + query * t->mask_row + b->first * t->mask_col;
        largest[r] = finish_scores(t, mask, visible(t, at, b), h->scores + r * PITCH, h->largest[in_run + r]);
        const float seen = largest[r] == -__builtin_inff() ? 0 : largest[r];
        drop[r] = h->largest[in_run + r] - seen;
        h->largest[in_run + r] = largest[r];
        largest[r] = seen;
    }
    float keep[VL];
    vf_store(keep, exp_f32x@L@(vf_load(drop)));
    for (int64_t r = 0; r < rows; r++) {
        const float total = exponentials(largest[r], visible(t, row + r, b), end, h->scores + r * PITCH);
        h->total[in_run + r] = h->total[in_run + r] * keep[r] + total;
        if (keep[r] == 1 || b->first == 0)
            continue;
        float *sums = h->sums + (in_run + r) * h->columns;
        for (int64_t j = 0; j < h->columns; j += VL)
            vf_store(sums + j, vf_load(sums + j) * keep[r]);
    }
}

static void add_values(const attention *t, const head *h, int64_t rows, int64_t in_run, int64_t end,
                       int64_t length) {
    for (int64_t j = 0; j < t->width; j += NR) {
        float *sums = h->sums + in_run * h->columns + j;
        const float *values = h->values + j * length;
        const struct tile tile = {.from_kind = FROM_TILE, .from = sums, .from_ld = h->columns, .to = sums,
                                  .to_ld = h->columns, .ahead = values};
        run_tile(rows, parts(smaller(NR, t->width - j), VL), end, h->scores, values, NR, &tile);
    }
}

/* A row of a softmax of zeros: 0 times each value, which may not be finite. */
static void add_zeros(const attention *t, const head *h, float *sums) {
    for (int64_t c = 0; c < t->width; c++) {
        sums[c] = 0;
        for (int64_t j = 0; j < t->keys; j++)
            sums[c] += 0 * h->v[j * t->v_row + c * t->v_col];
    }
}

static void store_row(const attention *t, const head *h, int64_t row, int64_t in_run) {
    float *y = h->y + row / t->queries * t->y_head + row % t->queries * t->y_row;
    float *sums = h->sums + in_run * h->columns, total = h->total[in_run];
    const int guarded = t->guard == GUARD_NAN     ? !(total > 0)
                        : t->guard == GUARD_EMPTY ? total == 0
                                                  : 0;
    if (guarded)
        add_zeros(t, h, sums);
    const vf share = vf_set1(guarded || t->keys == 0 ? 1 : 1 / total);
    for (int64_t j = 0; j < t->width; j += VL) {
        const vf x = vf_load(sums + j) * share;
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

/* Tiles [tile0, tile1) of the rows of one batch and head of keys. */
static void run_tiles(const attention *t, head *h, int64_t tile0, int64_t tile1, int64_t rows, float *scratch) {
    const int64_t tiles = parts(rows, MR), row0 = cut(rows, tile0, tiles), row1 = cut(rows, tile1, tiles);
    const int64_t blocks = parts(t->keys, KEY_BLOCK);
    const int64_t length = blocks ? parts(parts(t->keys, blocks), NR) * NR : 0;
    h->columns = parts(t->width, NR) * NR;
    h->keys = scratch;
    h->values = h->keys + length * t->depth;
    h->scores = h->values + length * h->columns;
    h->queries = h->scores + MR * PITCH;
    h->sums = h->queries + (t->depth ? parts(t->depth, KEY_BLOCK) : 1) * MR * PITCH;
    h->largest = h->sums + (row1 - row0) * h->columns;
    h->total = h->largest + (row1 - row0);
    memset(h->sums, 0, sizeof(float) * (size_t)((row1 - row0) * h->columns));
    for (int64_t r = 0; r < row1 - row0; r++) {
        h->largest[r] = -__builtin_inff();
        h->total[r] = 0;
    }
    for (block b = {0, 0}; b.first < t->keys; b.first += length) {
        b.count = smaller(length, t->keys - b.first);
        int packed = 0;
        for (int64_t i = tile0; i < tile1; i++) {
            const int64_t row = cut(rows, i, tiles), count = cut(rows, i + 1, tiles) - row;
            int64_t end = 0; /* columns that some row sees */
            for (int64_t r = 0; r < count; r++) {
                const int64_t n = visible(t, row + r, &b);
                end = n > end ? n : end;
            }
            if (end == 0)
                continue;
            if (!packed) {
                pack_panels(h->k + b.first * t->k_row, t->k_col, t->k_row, t->depth, b.count, h->keys,
                            t->depth * NR);
                pack_panels(h->v + b.first * t->v_row, t->v_row, t->v_col, b.count, t->width, h->values,
                            length * NR);
                packed = 1;
            }
            score_tile(t, h, row, count, end);
            soften_tile(t, h, &b, row, count, row - row0, end);
            add_values(t, h, count, row - row0, end, length);
        }
    }
    for (int64_t row = row0; row < row1; row++)
        store_row(t, h, row, row - row0);
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
        const int64_t unit = begin % units, kv = begin / units % t.kv_heads, batch = begin / units / t.kv_heads;
        const int64_t run = smaller(smaller(end - begin, units - unit), RUN_UNITS);
        head h = {
            .q = (const float *)buf[0] + batch * t.q_batch + kv * group * t.q_head,
            .k = (const float *)buf[1] + batch * t.k_batch + kv * t.k_head,
            .v = (const float *)buf[2] + batch * t.v_batch + kv * t.v_head,
            .mask = buf[3],
            .y = (float *)buf[4] + batch * t.y_batch + kv * group * t.y_head,
        };
        if (h.mask)
            h.mask += batch * t.mask_batch + kv * group * t.mask_head;
        run_tiles(&t, &h, cut(tiles, unit, units), cut(tiles, unit + run, units), rows, scratch);
        begin += run;
    }
    return 0;
}
"""
