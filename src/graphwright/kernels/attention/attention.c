/* Attention: see attention.py. */

#include "attention/scores.h"

/* n rounded up to a multiple of the unit of computation. */
GW_INLINE int64_t whole(int64_t n) { return (n + SCORES - 1) / SCORES * SCORES; }

static void score_tile(const struct attention_args *t, const head *h, const query *p, int64_t rows,
                       int64_t end) {
    const int64_t deep = steps_of(h, t->depth);
    for (int64_t r = 0; r < rows; r++) {
        float *to = h->queries + r * PITCH;
        if (h->pairs)
            scale_pairs(t, p[r].q, h->k.native, to);
        else
            scale_query(t, scale_of(t, h), p[r].q, to);
    }
    fetch_rows(p[0].q + rows * t->q_row, t->q_row, rows, t->depth); /* usually the rows of the next tile */
    for (int64_t j = 0; j < end; j += NR) {
        const float *keys = h->keys + j * deep;
        int64_t d0 = 0;
        do {
            multiply(h, rows, end - j > VL, smaller(KEY_BLOCK, deep - d0),
                     h->queries + d0 / KEY_BLOCK * MR * PITCH, keys + d0 * NR, h->scores + j, d0 > 0);
            d0 += KEY_BLOCK;
        } while (d0 < deep);
    }
}

/* The accumulators of row r, from column j on. */
GW_INLINE float *sum_of(const head *h, const tile *x, int64_t r, int64_t j) {
    return x->sums + (j / KEY_BLOCK * h->sum_rows + r) * PITCH + j % KEY_BLOCK;
}

/* Replaces scores by their exponentials (online softmax), and rescales the accumulators to the new row
 * maxima. */
static void soften_tile(const struct attention_args *t, const head *h, const block *b, const tile *x,
                        const query *p, int64_t end) {
    vf lanes[VL], keep = {0};
    for (int64_t r = 0; r < VL; r++)
        lanes[r] = vf_set1(-__builtin_inff());
    for (int64_t r = 0; r < x->rows; r++) {
        const float *mask = p[r].mask ? p[r].mask + b->first * t->mask_col : NULL;
        lanes[r] = finish_scores(t, mask, p[r].visible, h->scores + r * PITCH);
    }
    const vf before = vf_load(x->largest), largest = vf_larger(vf_maxima(lanes), before);
    const vf shift = vf_select(largest == vf_set1(-__builtin_inff()), (vf){0}, largest);
    vf_store(x->largest, largest);
    if (b->first > 0)
        keep = vf_power(exponent(before - shift, h->in_log2));
    for (int64_t r = 0; r < x->rows; r++) {
        float *scores = h->scores + r * PITCH;
        lanes[r] = h->in_log2 ? exponentials(shift[r], p[r].visible, end, scores, 1)
                              : exponentials(shift[r], p[r].visible, end, scores, 0);
        if (h->pairs)
            narrow_scores(scores, h->k.native, end);
        if (b->first == 0 || keep[r] == 1)
            continue;
        for (int64_t j = 0; j < t->width; j += VL)
            vf_store(sum_of(h, x, r, j), vf_load(sum_of(h, x, r, j)) * keep[r]);
    }
    vf_store(x->total, vf_load(x->total) * keep + vf_totals(lanes));
}

/* Adds the products of exponentials and values to the accumulators, which the first block writes. */
static void add_values(const struct attention_args *t, const head *h, const block *b, const tile *x,
                       int64_t end, int64_t length) {
    const int64_t steps = steps_of(h, end), apart = steps_of(h, length);
    for (int64_t j = 0; j < t->width; j += NR)
        multiply(h, x->rows, t->width - j > VL, steps, h->scores, h->values + j * apart, sum_of(h, x, 0, j),
                 b->first > 0);
}

/* Clears the accumulators of rows that see no key. */
static void clear_sums(const struct attention_args *t, const head *h, const tile *x) {
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t j = 0; j < t->width; j += VL)
            vf_store(sum_of(h, x, r, j), (vf){0});
}

/* A row whose softmax is all zeros: the sum of 0 times each value, which is NaN if a value is not finite. */
static void add_zeros(const struct attention_args *t, const head *h, const tile *x, int64_t r) {
    for (int64_t c = 0; c < t->width; c++) {
        float *sum = sum_of(h, x, r, c);
        *sum = 0;
        for (int64_t j = 0; j < t->keys; j++)
            *sum += 0 * numbers_at(&h->v, j * t->v_row + c * t->v_col, 1)[0];
    }
}

/* Stores n accumulators, times `share`. */
GW_INLINE void store_sums(const float *sum, float share, int64_t n, float *y, int64_t y_col) {
    int64_t j = 0;
    if (y_col != 1) {
        for (; j < n; j++)
            y[j * y_col] = sum[j] * share;
        return;
    }
    for (; j + VL <= n; j += VL)
        vf_store(y + j, vf_load(sum + j) * share);
    if (j < n)
        vf_store_n(y + j, vf_load(sum + j) * share, n - j);
}

static void store_tile(const struct attention_args *t, const head *h, const tile *x, const query *p) {
    const vf total = vf_load(x->total), share = 1 / total;
    for (int64_t r = 0; r < x->rows; r++) {
        const int guarded = t->guard == GUARD_NAN     ? !(total[r] > 0)
                            : t->guard == GUARD_EMPTY ? total[r] == 0
                                                      : 0;
        if (guarded)
            add_zeros(t, h, x, r);
        for (int64_t j = 0; j < t->width; j += KEY_BLOCK)
            store_sums(sum_of(h, x, r, j), guarded || t->keys == 0 ? 1 : share[r],
                       smaller(KEY_BLOCK, t->width - j), p[r].y + j * t->y_col, t->y_col);
    }
}

/* Whether a mask hides n keys: all its elements are -inf. */
GW_INLINE int hides(const float *mask, int64_t n) {
    const uint32_t hidden = 0xff800000;
    uint32_t other = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, mask + i, sizeof bits);
        other |= bits ^ hidden;
    }
    return other == 0;
}

/* The first key from which on the mask hides all keys of a row. */
static int64_t find_unhidden(const struct attention_args *t, const float *mask) {
    int64_t n = t->keys;
    if (t->mask_col == 1)
        while (n >= SCORES && hides(mask + n - SCORES, SCORES))
            n -= SCORES;
    if (t->mask_col == 0 && n > 0)
        return hides(mask, 1) ? 0 : n;
    while (n > 0 && hides(mask + (n - 1) * t->mask_col, 1))
        n--;
    return n;
}

/* Locates rows of queries from `row` on; the first of them is row `at` of the run. */
static void find_rows(const struct attention_args *t, const head *h, int64_t row, int64_t rows, int64_t at,
                      query *p) {
    int64_t in_group = quotient(row, t->queries), query = row - in_group * t->queries;
    for (int64_t r = 0; r < rows; r++) {
        p[r].q = h->q + in_group * t->q_head + query * t->q_row;
        p[r].mask = h->mask ? h->mask + in_group * t->mask_head + query * t->mask_row : NULL;
        p[r].y = h->y + in_group * t->y_head + query * t->y_row;
        p[r].limit = t->causal ? query + t->offset + 1 : t->keys;
        p[r].unhidden = h->unhidden[at + r];
        if (++query == t->queries) {
            query = 0;
            in_group++;
        }
    }
}

/* Finds the keys that each row of the run sees; rows of several heads mostly share a row of the mask. */
static void find_seen(const struct attention_args *t, head *h, int64_t row) {
    const float *before = NULL;
    query p;
    for (int64_t r = 0; r < h->rows; r++)
        h->unhidden[r] = t->keys;
    if (!h->mask && !t->causal) {
        h->keys_seen = t->keys;
        return;
    }
    h->keys_seen = 0;
    for (int64_t r = 0; r < h->rows; r++) {
        find_rows(t, h, row + r, 1, r, &p);
        if (p.mask)
            h->unhidden[r] = p.mask == before ? h->unhidden[r - 1] : find_unhidden(t, p.mask);
        before = p.mask;
        const int64_t seen = smaller(p.limit, h->unhidden[r]);
        h->keys_seen = seen > h->keys_seen ? seen : h->keys_seen;
    }
    h->keys_seen = smaller(h->keys_seen, t->keys);
}

/* Finds the keys of a block that rows see, and returns the most of a row. */
static int64_t find_visible(query *p, int64_t rows, const block *b) {
    int64_t most = 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t n = smaller(smaller(p[r].limit - b->first, whole(p[r].unhidden - b->first)), b->count);
        p[r].visible = n < 0 ? 0 : n;
        most = n > most ? n : most;
    }
    return most;
}

/* Memory of a run of tiles besides that of `head`: accumulators, and for each row its largest score and its
 * sum of exponentials. */
typedef struct {
    float *sums, *largest, *total;
} accumulators;

/* Divides the scratch memory of a run of `tiles` tiles with blocks of `length` keys, and clears the rows. */
static accumulators divide(const struct attention_args *t, head *h, int64_t tiles, int64_t length,
                           float *scratch) {
    h->keys = scratch;
    h->values = h->keys + length * t->depth;
    h->scores = h->values + length * ceildiv(t->width, NR) * NR;
    h->queries = h->scores + MR * PITCH;
    accumulators a;
    a.sums = h->queries + (t->depth ? ceildiv(t->depth, KEY_BLOCK) : 1) * MR * PITCH;
    h->unhidden = (int64_t *)(a.sums + ceildiv(t->width, KEY_BLOCK) * h->sum_rows * PITCH);
    a.largest = (float *)(h->unhidden + h->rows);
    a.total = a.largest + tiles * VL;
    for (int64_t i = 0; i < tiles * VL; i++) {
        a.largest[i] = -__builtin_inff();
        a.total[i] = 0;
    }
    return a;
}

/* Computes tiles [tile0, tile1) of the rows of one batch and head of keys. */
static void run_tiles(const struct attention_args *t, head *h, int64_t tile0, int64_t tile1, int64_t rows,
                      float *scratch) {
    const int64_t tiles = ceildiv(rows, MR), row0 = part_begin(rows, tile0, tiles),
                  row1 = part_begin(rows, tile1, tiles);
    const int64_t blocks = ceildiv(t->keys, KEY_BLOCK);
    const int64_t length = blocks ? ceildiv(ceildiv(t->keys, blocks), NR) * NR : 0;
    query p[MR];
    h->rows = row1 - row0;
    h->sum_rows = blocks > 1 ? h->rows : MR;
    h->in_log2 = !h->mask && t->softcap == 0 && !h->pairs;
    const accumulators a = divide(t, h, tile1 - tile0, length, scratch);
    find_seen(t, h, row0);
    block b = {0, 0};
    do {
        b.count = smaller(smaller(length, whole(h->keys_seen - b.first)), t->keys - b.first);
        const int last = b.first + length >= h->keys_seen;
        int packed = 0;
        for (int64_t i = tile0; i < tile1; i++) {
            const int64_t row = part_begin(rows, i, tiles), at = row - row0;
            const tile x = {
                .rows = part_begin(rows, i + 1, tiles) - row,
                .sums = a.sums + (blocks > 1 ? at * PITCH : 0),
                .largest = a.largest + (i - tile0) * VL,
                .total = a.total + (i - tile0) * VL,
            };
            find_rows(t, h, row, x.rows, at, p);
            const int64_t end = find_visible(p, x.rows, &b);
            if (end > 0 && !packed) {
                pack_block(t, h, &b, length);
                packed = 1;
            }
            if (end == 0 && b.first == 0)
                clear_sums(t, h, &x);
            if (end > 0) {
                score_tile(t, h, p, x.rows, end);
                soften_tile(t, h, &b, &x, p, end);
                if (last)
                    for (int64_t r = 0; r < x.rows; r++)
                        fetch_rows(p[r].y, 0, 1, t->width);
                add_values(t, h, &b, &x, end, length);
            }
            if (last)
                store_tile(t, h, &x, p);
        }
        b.first += length;
    } while (b.first < h->keys_seen);
}

static int32_t run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                   int pairs) {
    struct attention_args t;
    memcpy(&t, arg, sizeof t);
    const int64_t *own = arg + ATTENTION_ARGS;
    const struct numbers k0 = {buf[ATTENTION_K], pairs ? (int)own[0] : 1, has_bf16()};
    const struct numbers v0 = {buf[ATTENTION_V], pairs ? (int)own[1] : 1, has_bf16()};
    if (begin >= end)
        return 0;
    const int64_t group = t.heads / t.kv_heads, rows = group * t.queries, tiles = ceildiv(rows, MR);
    const int64_t units = ceildiv(tiles, UNIT_TILES);
    while (begin < end) {
        const int64_t unit = begin % units, kv = begin / units % t.kv_heads;
        const int64_t batch = begin / units / t.kv_heads;
        const int64_t run = smaller(smaller(end - begin, units - unit), RUN_UNITS);
        head h = {
            .q = (const float *)buf[ATTENTION_Q] + batch * t.q_batch + kv * group * t.q_head,
            .k = numbers_from(k0, batch * t.k_batch + kv * t.k_head),
            .v = numbers_from(v0, batch * t.v_batch + kv * t.v_head),
            .mask = buf[ATTENTION_MASK],
            .y = (float *)buf[ATTENTION_Y] + batch * t.y_batch + kv * group * t.y_head,
            .pairs = pairs,
        };
        if (h.mask)
            h.mask += batch * t.mask_batch + kv * group * t.mask_head;
        run_tiles(&t, &h, part_begin(tiles, unit, units), part_begin(tiles, unit + run, units), rows,
                  scratch);
        begin += run;
    }
    return 0;
}

GW_KERNEL(gw_attention_f32) { return run(buf, arg, begin, end, scratch, 0); }

GW_KERNEL(gw_attention_bf16) { return run(buf, arg, begin, end, scratch, 1); }
