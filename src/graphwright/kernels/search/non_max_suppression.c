/* Non-maximum suppression: see non_max_suppression.py. */

#include "library/sizes.h"

#include "search/non_max_suppression.gen.h"

/* The lesser and the greater of two vectors (the second one if either is NaN), and comparisons that return
 * one bit per lane. */
#if VL == 16
GW_INLINE vf lesser(vf a, vf b) {
    __asm__("vminps %1, %0, %0" : "+v"(a) : "v"(b));
    return a;
}
GW_INLINE vf greater(vf a, vf b) {
    __asm__("vmaxps %1, %0, %0" : "+v"(a) : "v"(b));
    return a;
}
GW_INLINE uint32_t above(vf a, vf b) { /* a > b (predicate 30), false for NaN */
    uint16_t bits;
    __asm__("vcmpps $30, %2, %1, %0" : "=Yk"(bits) : "v"(a), "v"(b));
    return bits;
}
GW_INLINE uint32_t not_below(vi a, vi b) { /* a >= b (predicate 5) */
    uint16_t bits;
    __asm__("vpcmpd $5, %2, %1, %0" : "=Yk"(bits) : "v"(a), "v"(b));
    return bits;
}
#else
GW_INLINE vf lesser(vf a, vf b) {
    __asm__("vminps %1, %0, %0" : "+x"(a) : "x"(b));
    return a;
}
GW_INLINE vf greater(vf a, vf b) {
    __asm__("vmaxps %1, %0, %0" : "+x"(a) : "x"(b));
    return a;
}
GW_INLINE uint32_t above(vf a, vf b) { /* a > b (predicate 30), false for NaN */
    vf yes;
    uint32_t bits;
    __asm__("vcmpps $30, %2, %1, %0" : "=x"(yes) : "x"(a), "x"(b));
    __asm__("vmovmskps %1, %0" : "=r"(bits) : "x"(yes));
    return bits;
}
GW_INLINE uint32_t not_below(vi a, vi b) { /* a >= b */
    uint32_t bits;
    __asm__("vmovmskps %1, %0" : "=r"(bits) : "x"(~(b > a)));
    return bits;
}
#endif

/* A sort counts the digits of keys, a histogram their highest bits. */
enum { DIGIT = 8, BINS = 1 << DIGIT, DIGITS = 4, COARSE = 20, COARSE_BINS = 1 << (32 - COARSE) };
_Static_assert(COARSE_BINS <= COUNTERS && DIGITS * BINS <= COUNTERS, "both fit in the counters");

enum {
    BATCH = 256,  /* the candidates of a class of which few boxes are wanted */
    SAMPLED = 16, /* of this many vectors of scores, one is in the histogram */
};

typedef struct {
    int32_t key; /* has the same order as the score */
    uint32_t box;
} entry;

/* A box of positive area, by its corners. */
typedef struct {
    float low[2], high[2], area;
} corners;

/* The kept boxes that have an area, as arrays of whole vectors; lanes without a box suppress nothing. */
typedef struct {
    float *low[2], *high[2], *area;
    int64_t count;
} kept;

/* One class: where its rows are written, and how many it has so far. */
typedef struct {
    const float *boxes;
    int64_t centered, batch, label, limit, chosen;
    float overlap,
        doubtful; /* an overlap of at most `doubtful` is at most `overlap`, however it was rounded */
    int64_t *rows;
    kept kept;
} class;

/* Returns x, but prevents contraction with later operations: each is rounded separately, as in NumPy. */
GW_INLINE float rounded(float x) {
    __asm__("" : "+x"(x));
    return x;
}

/* A key with the order of the scores; NaN is least, and -0 equals 0. */
GW_INLINE vi keys_of(vf score) {
    const vi bits = (vi)(score + (vf){0});
    const vi key = bits ^ ((bits >> 31) & vi_set1(INT32_MAX));
    return (vi)vf_select(score == score, (vf)key, (vf)vi_set1(INT32_MIN));
}

/* Estimates, from a sample of vectors, a key that about `wanted` scores reach; the least key if not many more
 * scores exceed the least score. */
static int32_t estimate_threshold(int64_t wanted, const float *score, int64_t count, const float *least,
                                  uint32_t *counters) {
    int64_t passing = 0;
    if (count <= 4 * wanted)
        return INT32_MIN;
    for (int64_t at = 0; at + VL <= count; at += SAMPLED * VL)
        passing += least ? __builtin_popcount(above(vf_load(score + at), vf_set1(*least))) : VL;
    if (passing * SAMPLED <= 4 * wanted)
        return INT32_MIN;
    memset(counters, 0, COARSE_BINS * sizeof *counters);
    for (int64_t at = 0; at + VL <= count; at += SAMPLED * VL) {
        int32_t keys[VL];
        vi_store(keys, keys_of(vf_load(score + at)));
        for (int lane = 0; lane < VL; lane++)
            counters[((uint32_t)keys[lane] ^ 0x80000000) >> COARSE]++;
    }
    int64_t found = 0;
    uint32_t bin = COARSE_BINS;
    while (bin > 0 && found * SAMPLED < wanted)
        found += counters[--bin];
    return (int32_t)((bin << COARSE) ^ 0x80000000);
}

/* Collects the boxes, in order, whose keys are within bounds and whose scores exceed the least; returns their
 * number. */
static int64_t candidates(const float *score, int64_t count, const float *least, int32_t low, int32_t high,
                          entry *found) {
    int64_t n = 0;
    const vf more = vf_set1(least ? *least : 0);
    for (int64_t at = 0; at < count; at += VL) {
        const int64_t here = count - at < VL ? count - at : VL;
        const vf x = vf_load_n(score + at, here);
        uint32_t passing = (uint32_t)(((uint64_t)1 << here) - 1);
        if (least)
            passing &= above(x, more);
        if (!passing)
            continue;
        const vi key = keys_of(x);
        passing &= not_below(key, vi_set1(low)) & not_below(vi_set1(high), key);
        if (!passing)
            continue;
        int32_t keys[VL];
        vi_store(keys, key);
        for (int lane = 0; lane < VL; lane++) {
            found[n] = (entry){keys[lane], (uint32_t)(at + lane)};
            n += passing >> lane & 1;
        }
    }
    return n;
}

/* One digit of the key, for a descending order. */
GW_INLINE uint32_t digit_of(entry e, int shift) {
    return ((uint32_t)INT32_MAX - (uint32_t)e.key) >> shift & (BINS - 1);
}

/* Stable radix sort by key, descending. Returns the one of the two buffers that holds the result. */
static entry *sorted(entry *from, int64_t count, entry *spare, uint32_t *counters) {
    if (count < 2)
        return from;
    memset(counters, 0, DIGITS * BINS * sizeof *counters);
    for (int64_t i = 0; i < count; i++)
        for (int digit = 0; digit < DIGITS; digit++)
            counters[digit * BINS + digit_of(from[i], digit * DIGIT)]++;
    for (int digit = 0; digit < DIGITS; digit++) {
        uint32_t *next = counters + digit * BINS, before = 0;
        const int shift = digit * DIGIT;
        if (next[digit_of(from[0], shift)] == (uint32_t)count)
            continue;
        for (int bin = 0; bin < BINS; bin++) {
            const uint32_t here = next[bin];
            next[bin] = before;
            before += here;
        }
        for (int64_t i = 0; i < count; i++)
            spare[next[digit_of(from[i], shift)]++] = from[i];
        entry *swap = from;
        from = spare;
        spare = swap;
    }
    return from;
}

/* NaN if either is NaN. */
GW_INLINE float lower(float a, float b) { return a < b || a != a ? a : b; }
GW_INLINE float upper(float a, float b) { return a > b || a != a ? a : b; }

GW_INLINE corners corners_of(const float *box, int64_t centered) {
    corners c;
    for (int k = 0; k < 2; k++) {
        const float a = box[k], b = box[2 + k], half = rounded(b / 2);
        c.low[k] = rounded(centered ? a - half : lower(a, b));
        c.high[k] = rounded(centered ? a + half : upper(a, b));
    }
    c.area = rounded(rounded(c.high[0] - c.low[0]) * rounded(c.high[1] - c.low[1]));
    return c;
}

/* Whether a kept box overlaps this one by more than allowed. Areas are positive, so the only NaN is the
 * product of an infinite and a zero side, which suppresses nothing. Few boxes are close enough to need the
 * division. */
static int is_hidden(const class *c, corners b) {
    const kept *by = &c->kept;
    const vf low0 = vf_set1(b.low[0]), low1 = vf_set1(b.low[1]), area = vf_set1(b.area), zero = {0};
    const vf high0 = vf_set1(b.high[0]), high1 = vf_set1(b.high[1]), doubtful = vf_set1(c->doubtful);
    for (int64_t at = 0; at < by->count; at += VL) {
        const vf side0 = lesser(vf_load(by->high[0] + at), high0) - greater(vf_load(by->low[0] + at), low0);
        const vf side1 = lesser(vf_load(by->high[1] + at), high1) - greater(vf_load(by->low[1] + at), low1);
        vf common = side0 * side1;
        __asm__("" : "+x"(common)); /* forces rounding before the subtraction */
        const vf all = (vf_load(by->area + at) + area) - common;
        const uint32_t meets = above(lesser(side0, side1), zero) & above(common, zero);
        if (!(meets & ~above(doubtful * all, common)))
            continue;
        if (meets & above(common / all, vf_set1(c->overlap)))
            return 1;
    }
    return 0;
}

static void keep(kept *list, corners c) {
    const int64_t n = list->count++;
    float *const arrays[] = {list->low[0], list->low[1], list->high[0], list->high[1], list->area};
    const float values[] = {c.low[0], c.low[1], c.high[0], c.high[1], c.area};
    for (int k = 0; k < 5; k++) {
        if (n % VL == 0)
            vf_store(arrays[k] + n, (vf){0});
        arrays[k][n] = values[k];
    }
}

/* Selects from candidates, best first, until the class has its maximal number. */
static void choose(class *c, const entry *best, int64_t count) {
    for (int64_t i = 0; i < count && c->chosen < c->limit; i++) {
        const corners box = corners_of(c->boxes + 4 * (int64_t)best[i].box, c->centered);
        if (box.area > 0) {
            if (is_hidden(c, box))
                continue;
            keep(&c->kept, box);
        }
        int64_t *row = c->rows + 3 * c->chosen++;
        row[0] = c->batch;
        row[1] = c->label;
        row[2] = best[i].box;
    }
}

GW_KERNEL(gw_nms_choose) {
    const struct nms_choose_args *a = nms_choose_args(arg);
    const int64_t centered = a->centered, classes = a->classes, count = a->count, slots = a->limit;
    const float *boxes = buf[NMS_CHOOSE_BOXES], *scores = buf[NMS_CHOOSE_SCORES],
                *least = buf[NMS_CHOOSE_LEAST];
    const int64_t most = buf[NMS_CHOOSE_MOST] ? *(const int64_t *)buf[NMS_CHOOSE_MOST] : 0,
                  limit = most < slots ? most : slots;
    int64_t *rows = buf[NMS_CHOOSE_ROWS], *filled = buf[NMS_CHOOSE_FILLED];
    if (count > UINT32_MAX)
        return TOO_MANY_BOXES;
    float *lists = scratch;
    const int64_t room = ceildiv(slots, PADDING) * PADDING + PADDING;
    uint32_t *counters = (uint32_t *)(lists + 5 * room);
    entry *found = (entry *)(counters + COUNTERS), *spare = found + count + PADDING;
    const float overlap = buf[NMS_CHOOSE_OVERLAP] ? *(const float *)buf[NMS_CHOOSE_OVERLAP] : 0;
    const float size = overlap < 0 ? -overlap : overlap;
    for (int64_t unit = begin; unit < end; unit++) {
        class c = {
            .boxes = boxes + unit / classes * count * 4,
            .centered = centered,
            .batch = unit / classes,
            .label = unit % classes,
            .limit = limit,
            .overlap = overlap,
            .doubtful = overlap - size * 0x1p-20f - 0x1p-120f,
            .rows = rows + 3 * unit * slots,
            .kept = {{lists, lists + room}, {lists + 2 * room, lists + 3 * room}, lists + 4 * room, 0},
        };
        const float *score = scores + unit * count;
        const int64_t wanted = limit < BATCH / 2 ? BATCH : limit < count ? 2 * limit : count;
        const int32_t best = estimate_threshold(wanted, score, count, least, counters);
        int64_t n = limit > 0 ? candidates(score, count, least, best, INT32_MAX, found) : 0;
        choose(&c, sorted(found, n, spare, counters), n);
        if (c.chosen < limit && best > INT32_MIN) {
            n = candidates(score, count, least, INT32_MIN, best - 1, found);
            choose(&c, sorted(found, n, spare, counters), n);
        }
        filled[unit] = c.chosen;
    }
    return 0;
}

GW_KERNEL(gw_nms_join) {
    (void)scratch;
    if (begin >= end)
        return 0;
    const struct nms_join_args *a = nms_join_args(arg);
    const int64_t units = a->parts, limit = a->limit, *filled = buf[NMS_JOIN_FILLED];
    int64_t *rows = buf[NMS_JOIN_ROWS], *total = buf[NMS_JOIN_TOTAL], at = 0;
    for (int64_t unit = 0; unit < units; unit++) {
        if (filled[unit] < 0 || filled[unit] > limit)
            return TOO_MANY_BOXES;
        if (at != unit * limit)
            memmove(rows + 3 * at, rows + 3 * unit * limit, (size_t)filled[unit] * 24);
        at += filled[unit];
    }
    *total = at;
    return 0;
}
