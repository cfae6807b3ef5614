/* Attention: see attention.py. */

#include "library/pairs.h"
#include "library/sizes.h"
#include "library/templates.h"

#include "attention/attention.gen.h"

/* The operands at one batch and one head of keys, and what a run has computed of them so far. */
typedef struct {
    const float *q, *mask;
    struct numbers k, v;
    float *y;
    float *keys, *values;          /* the block at hand: panels [depth][NR] and [keys][NR] */
    float *queries, *scores;       /* a tile */
    float *sums, *largest, *total; /* of each row of the run */
    int64_t *unhidden;             /* of each row of the run: its mask hides all keys from there on */
    int64_t keys_seen;             /* no row of the run sees a key from there on */
    struct numbers next_k, next_v; /* of the head after the run; at NULL unless the chunk goes on */
    int64_t rows;                  /* of the run; sums are [width / KEY_BLOCK][rows][PITCH] */
    int pairs;                     /* of bf16 are what both products take */
} head;

/* `count` elements further on. */
GW_INLINE struct numbers numbers_from(struct numbers x, int64_t count) {
    x.at = (const char *)x.at + (x.single ? 4 : 2) * count;
    return x;
}

/* Of n values of what a product sums, the rows that it reads. */
GW_INLINE int64_t steps_of(const head *h, int64_t n) { return h->pairs ? parts(n, 2) : n; }

/* c[rows][vectors * VL] = a @ b of pairs without the instruction for them, or added to it. */
static void product_of_halves(int64_t rows, int64_t vectors, int64_t k, const float *a, const float *b,
                              float *c, int add) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vectors * VL; v += VL) {
            vf sum = add ? vf_load(c + r * PITCH + v) : (vf){0};
            for (int64_t j = 0; j < k; j++) {
                int32_t bits;
                memcpy(&bits, a + r * PITCH + j, sizeof bits);
                const vf pair = (vf)vi_set1(bits), x = vf_load(b + j * NR + v);
                sum = vf_fma(lower_half(pair), lower_half(x), sum);
                sum = vf_fma(upper_half(pair), upper_half(x), sum);
            }
            vf_store(c + r * PITCH + v, sum);
        }
}

/* c[rows][] = a @ b, or added to it, for one or two vectors. */
GW_INLINE void multiply(const head *h, int64_t rows, int two, int64_t k, const float *a, const float *b,
                        float *c, int add) {
#if VL == 16
    if (h->pairs && h->k.native) {
        pair_product_of[rows - 1][two](k, a, b, c, add);
        return;
    }
#endif
    if (h->pairs)
        product_of_halves(rows, two + 1, k, a, b, c, add);
    else
        product_of[rows - 1][two](k, a, b, c, add);
}

/* A block of keys. */
typedef struct {
    int64_t first, count;
} block;

/* A row of queries. */
typedef struct {
    const float *q, *mask;
    float *y;
    int64_t limit;    /* of the keys that it sees */
    int64_t unhidden; /* its mask hides all keys from there on */
} place;

/* The first n elements, at most a vector. */
GW_INLINE vf load_upto(const float *p, int64_t n) { return n == VL ? vf_load(p) : vf_load_n(p, n); }

/* Rows that will be read or written soon, n elements of each. */
GW_INLINE void fetch_rows(const float *x, int64_t x_row, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j += 16)
            __builtin_prefetch(x + r * x_row + j, 0, 2);
}

/* The same of rows of numbers. */
GW_INLINE void fetch_numbers(struct numbers x, int64_t place, int64_t row, int64_t rows, int64_t n) {
    const int64_t size = x.single ? 4 : 2;
    const char *at = (const char *)x.at + size * place;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < size * n; j += 64)
            __builtin_prefetch(at + r * row * size + j, 0, 2);
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

/* VL pairs of n <= 2 * VL numbers times factor, zeros behind them. */
GW_INLINE vf pairs_at(const struct numbers *x, int64_t place, int64_t step, int64_t n, float factor) {
    uint16_t made[2 * VL] = {0};
    if (step != 1) {
        for (int64_t i = 0; i < n; i++)
            made[i] = number_at(x, place + i * step, factor);
    } else if (!x->single && factor == 1) {
        memcpy(made, (const uint16_t *)x->at + place, (size_t)n * sizeof *made);
    } else {
        for (int64_t i = 0; i < n; i += VL)
            *(vh_any *)(made + i) = rounded(vf_set1(factor) * numbers_at(x, place + i, n - i), x->native);
    }
    return vf_load((const float *)(const void *)made);
}

/* Panels [depth / 2][NR] of pairs of the block's keys, zeros beyond. */
static void pack_pairs_of_keys(const struct attention_args *t, const head *h, const block *b) {
    const int64_t deep = parts(t->depth, 2);
    float rows[VL * VL] __attribute__((aligned(64)));
    for (int64_t c = 0; c < parts(b->count, NR) * NR; c += VL) {
        const int64_t n = smaller(VL, b->count - c), from = (b->first + c) * t->k_row;
        float *to = h->keys + c / NR * deep * NR + c % NR;
        for (int64_t r = 0; r < deep; r += VL) {
            const int64_t count = smaller(VL, deep - r);
            for (int64_t i = 0; i < n; i++)
                vf_store(rows + i * VL, pairs_at(&h->k, from + i * t->k_row + 2 * r * t->k_col, t->k_col,
                                                 smaller(2 * VL, t->depth - 2 * r), 1));
            transpose(rows, VL, n > 0 ? n : 0, count, to + r * NR, NR);
        }
    }
}

/* n <= VL numbers as the lower halves of lanes, zeros behind them. */
GW_INLINE vw halves_at(const struct numbers *x, int64_t place, int64_t step, int64_t n) {
    uint16_t made[VL] = {0};
    if (step == 1)
        return __builtin_convertvector(rounded(numbers_at(x, place, n), x->native), vw);
    for (int64_t i = 0; i < n; i++)
        made[i] = number_at(x, place + i * step, 1);
    return __builtin_convertvector(*(const vh_any *)made, vw);
}

/* Panels [length / 2][NR] of pairs of the block's values, zeros beyond. */
static void pack_pairs_of_values(const struct attention_args *t, const head *h, const block *b,
                                 int64_t length) {
    for (int64_t r = 0; r < b->count; r += 2) {
        const int64_t from = (b->first + r) * t->v_row;
        for (int64_t c = 0; c < parts(t->width, NR) * NR; c += VL) {
            const int64_t n = smaller(VL, t->width - c), place = from + c * t->v_col;
            float *to = h->values + c / NR * NR * steps_of(h, length) + r / 2 * NR + c % NR;
            vw pair = {0};
            if (n > 0)
                pair = halves_at(&h->v, place, t->v_col, n);
            if (n > 0 && r + 1 < b->count)
                pair |= halves_at(&h->v, place + t->v_row, t->v_col, n) << 16;
            vf_store(to, (vf)pair);
        }
    }
}

static void pack_block(const struct attention_args *t, const head *h, const block *b, int64_t length) {
    if (h->pairs) {
        pack_pairs_of_keys(t, h, b);
        pack_pairs_of_values(t, h, b, length);
        return;
    }
    const float *k = h->k.at, *v = h->v.at;
    pack_panels(k + b->first * t->k_row, t->k_col, t->k_row, t->depth, b->count, h->keys, t->depth * NR);
    pack_panels(v + b->first * t->v_row, t->v_row, t->v_col, b->count, t->width, h->values, length * NR);
}

/* One row of queries times the scale, in parts of KEY_BLOCK that lie MR * PITCH apart. */
static void scale_query(const struct attention_args *t, const float *from, float *to) {
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

/* The same in pairs. */
static void scale_pairs(const struct attention_args *t, const float *from, int native, float *to) {
    const struct numbers q = {from, 1, native};
    for (int64_t d0 = 0; d0 < t->depth; d0 += 2 * KEY_BLOCK, to += MR * PITCH) {
        const int64_t n = smaller(2 * KEY_BLOCK, t->depth - d0);
        for (int64_t j = 0; j < n; j += 2 * VL)
            vf_store(to + j / 2,
                     pairs_at(&q, (d0 + j) * t->q_col, t->q_col, smaller(2 * VL, n - j), (float)t->scale));
    }
}

/* The first n scores as pairs in their own memory, 0 beside the last of an odd number. */
static void narrow_scores(float *s, int native, int64_t n) {
    const struct numbers scores = {s, 1, native};
    for (int64_t j = 0; j < n; j += 2 * VL)
        vf_store(s + j / 2, pairs_at(&scores, j, 1, smaller(2 * VL, n - j), 1));
}

/* The mask of n <= VL scores from column j on. */
GW_INLINE vf mask_at(const struct attention_args *t, const float *row, int64_t j, int64_t n) {
    float lane[VL] = {0};
    if (t->mask_col == 0)
        return vf_set1(*row);
    if (t->mask_col == 1)
        return load_upto(row + j, n);
    for (int64_t i = 0; i < n; i++)
        lane[i] = row[(j + i) * t->mask_col];
    return vf_load(lane);
}

/* Scores x with a mask: the sum of both, or the mask where it is not 0. */
GW_INLINE vf masked(const struct attention_args *t, vf x, vf mask) {
    return t->fill ? vf_select(mask == (vf){0}, x, mask) : x + mask;
}

/* Scores with softcap and mask, -inf from column n up to a whole vector; the largest. */
GW_INLINE float finish_scores(const struct attention_args *t, const float *mask, int64_t n, float *s) {
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
            x = cap * VF_MATH(tanh)(x * inverse);
        if (mask)
            x = masked(t, x, mask_at(t, mask, j, m));
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

/* n rounded up to what is computed at once. */
GW_INLINE int64_t whole(int64_t n) { return (n + SCORES - 1) / SCORES * SCORES; }

/* Keys of the block that are computed for a row: those that it sees, and hidden ones up to SCORES, so that
   sums are in the same order however many keys are hidden. */
GW_INLINE int64_t visible(const place *p, const block *b) {
    const int64_t n = smaller(smaller(p->limit - b->first, whole(p->unhidden - b->first)), b->count);
    return n < 0 ? 0 : n;
}

static void score_tile(const struct attention_args *t, const head *h, const place *p, int64_t rows,
                       int64_t end) {
    const int64_t deep = steps_of(h, t->depth);
    for (int64_t r = 0; r < rows; r++) {
        float *to = h->queries + r * PITCH;
        if (h->pairs)
            scale_pairs(t, p[r].q, h->k.native, to);
        else
            scale_query(t, p[r].q, to);
    }
    fetch_rows(p[0].q + rows * t->q_row, t->q_row, rows, t->depth); /* usually the next tile */
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

/* Sums of a row from column j on. */
GW_INLINE float *sum_of(const head *h, int64_t in_run, int64_t j) {
    return h->sums + j / KEY_BLOCK * h->rows * PITCH + in_run * PITCH + j % KEY_BLOCK;
}

/* Scores to powers; the sums so far are brought to the new largest scores. */
static void soften_tile(const struct attention_args *t, const head *h, const block *b, const place *p,
                        int64_t rows, int64_t in_run, int64_t end) {
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
        if (h->pairs)
            narrow_scores(h->scores + r * PITCH, h->k.native, end);
        if (keep[r] == 1 || b->first == 0)
            continue;
        for (int64_t j = 0; j < t->width; j += VL) {
            float *sum = sum_of(h, in_run + r, j);
            vf_store(sum, vf_load(sum) * keep[r]);
        }
    }
}

static void add_values(const struct attention_args *t, const head *h, int64_t rows, int64_t in_run,
                       int64_t end, int64_t length) {
    const int64_t steps = steps_of(h, end), apart = steps_of(h, length);
    for (int64_t j = 0; j < t->width; j += NR)
        multiply(h, rows, t->width - j > VL, steps, h->scores, h->values + j * apart, sum_of(h, in_run, j),
                 1);
}

/* A row of a softmax of zeros: 0 times each value, which may not be finite. */
static void add_zeros(const struct attention_args *t, const head *h, int64_t in_run) {
    for (int64_t c = 0; c < t->width; c++) {
        float *sum = sum_of(h, in_run, c);
        *sum = 0;
        for (int64_t j = 0; j < t->keys; j++)
            *sum += 0 * numbers_at(&h->v, j * t->v_row + c * t->v_col, 1)[0];
    }
}

static void store_row(const struct attention_args *t, const head *h, float *y, int64_t in_run) {
    const float total = h->total[in_run];
    const int guarded = t->guard == GUARD_NAN ? !(total > 0) : t->guard == GUARD_EMPTY ? total == 0 : 0;
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

/* Whether a mask hides n keys: all of it is -inf. */
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

/* The key from which on a row of the mask hides all. */
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

/* Where rows of queries from row on are, the first of them row `at` of the run. */
static void find_rows(const struct attention_args *t, const head *h, int64_t row, int64_t rows, int64_t at,
                      place *p) {
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

/* What each row of the run sees; rows of several heads mostly share a row of the mask. */
static void find_seen(const struct attention_args *t, head *h, int64_t row) {
    const float *before = NULL;
    place p;
    h->keys_seen = 0;
    for (int64_t r = 0; r < h->rows; r++) {
        h->unhidden[r] = t->keys;
        find_rows(t, h, row + r, 1, r, &p);
        if (p.mask)
            h->unhidden[r] = p.mask == before ? h->unhidden[r - 1] : find_unhidden(t, p.mask);
        before = p.mask;
        const int64_t seen = smaller(p.limit, h->unhidden[r]);
        h->keys_seen = seen > h->keys_seen ? seen : h->keys_seen;
    }
    h->keys_seen = smaller(h->keys_seen, t->keys);
}

/* How many keys of a block rows see at most. */
GW_INLINE int64_t most_visible(const place *p, int64_t rows, const block *b) {
    int64_t most = 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t n = visible(p + r, b);
        most = n > most ? n : most;
    }
    return most;
}

/* A share of the keys and values that are packed next. */
static void fetch_share(const struct attention_args *t, const head *h, const block *b, int64_t length,
                        int64_t share, int64_t shares) {
    const int64_t first = b->first + length < h->keys_seen ? b->first + length : 0;
    const struct numbers k = first ? h->k : h->next_k, v = first ? h->v : h->next_v;
    const int64_t count = smaller(length, (first ? h->keys_seen : t->keys) - first);
    const int64_t row0 = first + cut(count, share, shares);
    const int64_t rows = first + cut(count, share + 1, shares) - row0;
    if (k.at && t->k_col == 1)
        fetch_numbers(k, row0 * t->k_row, t->k_row, rows, t->depth);
    if (v.at && t->v_col == 1)
        fetch_numbers(v, row0 * t->v_row, t->v_row, rows, t->width);
}

/* Tiles [tile0, tile1) of the rows of one batch and head of keys. */
static void run_tiles(const struct attention_args *t, head *h, int64_t tile0, int64_t tile1, int64_t rows,
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
    h->unhidden = (int64_t *)(h->sums + parts(t->width, KEY_BLOCK) * h->rows * PITCH);
    h->largest = (float *)(h->unhidden + h->rows);
    h->total = h->largest + h->rows;
    for (int64_t r = 0; r < h->rows; r++) {
        for (int64_t j = 0; j < t->width; j += VL)
            vf_store(sum_of(h, r, j), (vf){0});
        h->largest[r] = -__builtin_inff();
        h->total[r] = 0;
    }
    find_seen(t, h, row0);
    block b = {0, 0};
    do {
        b.count = smaller(smaller(length, whole(h->keys_seen - b.first)), t->keys - b.first);
        const int last = b.first + length >= h->keys_seen;
        int packed = 0;
        for (int64_t i = tile0; i < tile1; i++) {
            const int64_t row = cut(rows, i, tiles), count = cut(rows, i + 1, tiles) - row, at = row - row0;
            find_rows(t, h, row, count, at, p);
            const int64_t end = most_visible(p, count, &b);
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
    const int64_t group = t.heads / t.kv_heads, rows = group * t.queries, tiles = parts(rows, MR);
    const int64_t units = parts(tiles, UNIT_TILES);
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
        if (begin + run < end && unit + run == units && kv + 1 < t.kv_heads) {
            h.next_k = numbers_from(h.k, t.k_head);
            h.next_v = numbers_from(h.v, t.v_head);
        }
        if (h.mask)
            h.mask += batch * t.mask_batch + kv * group * t.mask_head;
        run_tiles(&t, &h, cut(tiles, unit, units), cut(tiles, unit + run, units), rows, scratch);
        begin += run;
    }
    return 0;
}

GW_KERNEL(gw_attention_f32) { return run(buf, arg, begin, end, scratch, 0); }

GW_KERNEL(gw_attention_bf16) { return run(buf, arg, begin, end, scratch, 1); }
