/* Pad: see pad.py. */

#include "movement/pad.gen.h"

#include "movement/rows.h"

/* A run of positions: source indices k, k + step, ... */
typedef struct {
    int64_t k, step, count;
} run;

/* The run from position i of an axis of n elements on, up to where it is reflected or wraps around; k is -1
 * in constant padding. */
GW_INLINE run padded_run(int64_t mode, int64_t i, int64_t n) {
    if (i >= 0 && i < n)
        return (run){i, 1, n - i};
    if (mode == CONSTANT || n == 0)
        return (run){-1, 0, INT64_MAX};
    if (mode == EDGE || n == 1)
        return i < 0 ? (run){0, 0, -i} : (run){n - 1, 0, INT64_MAX};
    int64_t period = mode == REFLECT ? 2 * (n - 1) : n;
    if (i < -period || i >= 2 * period) /* a division takes as long as copying a short row */
        i %= period;
    i += i < 0 ? period : 0;
    i -= i >= period ? period : 0;
    return i < n ? (run){i, 1, n - i} : (run){period - i, -1, period - i};
}

GW_INLINE int64_t padded_index(int64_t mode, int64_t i, int64_t n) { return padded_run(mode, i, n).k; }

typedef struct {
    int64_t size, mode, n, inside, before, d, s; /* the innermost axis; strides in bytes */
    const char *fill;
} row_pad;

/* Writes elements [from, to) of a row, run by run. */
GW_INLINE void pad_elements(const row_pad *t, char *dst, const char *src, int64_t from, int64_t to) {
    const int64_t d = t->d, size = t->size;
    for (int64_t j = from; j < to;) {
        const run r = padded_run(t->mode, j - t->before, t->inside);
        const int64_t count = r.count < to - j ? r.count : to - j, s = r.step * t->s;
        const char *at = r.k < 0 ? t->fill : src + r.k * t->s;
        char *out = dst + j * d;
        j += count;
        if (size == 4)
            for (int64_t i = 0; i < count; i++, out += d, at += s)
                memcpy(out, at, 4);
        else
            for (int64_t i = 0; i < count; i++, out += d, at += s)
                memcpy(out, at, (size_t)size);
    }
}

#define TEMPLATE "movement/frame_of.h"
#include "movement/each_size.h"

/* Writes a run of the constant, as rows of a copy with source stride 0. */
GW_INLINE void pad_fill(const row_pad *t, char *dst, int64_t from, int64_t to) {
    int64_t d[2] = {0, t->d}, s[2] = {0, 0};
    if (to - from > 4) {
        ROWS[size_index(t->size)](dst + from * t->d, d, t->fill, s, 1, to - from);
        return;
    }
    for (int64_t j = from; j < to; j++) {
        if (t->size == 4)
            memcpy(dst + j * t->d, t->fill, 4);
        else
            memcpy(dst + j * t->d, t->fill, (size_t)t->size);
    }
}

/* Writes one row; src is NULL if an outer axis is in its padding. */
GW_INLINE void pad_row(const row_pad *t, char *dst, const char *src) {
    int64_t from = t->before < 0 ? 0 : t->before < t->n ? t->before : t->n;
    int64_t to = t->before + t->inside;
    to = !src || to < from ? from : to < t->n ? to : t->n;
    if (t->mode == CONSTANT || !src) {
        pad_fill(t, dst, 0, from);
        pad_fill(t, dst, to, t->n);
    } else {
        pad_elements(t, dst, src, 0, from);
        pad_elements(t, dst, src, to, t->n);
    }
    int64_t d[2] = {0, t->d}, s[2] = {0, t->s};
    if (to > from && t->d == t->size && t->s == t->size)
        move_run(dst + from * t->d, src + (from - t->before) * t->s, (to - from) * t->size);
    else if (to > from)
        ROWS[size_index(t->size)](dst + from * t->d, d, src + (from - t->before) * t->s, s, 1, to - from);
}

typedef void frame(const row_pad *t, char *dst, int64_t d, const char *src, int64_t s, int64_t rows);
static frame *const FRAME[] = {frame_1, frame_2, frame_4, frame_8, frame_16};

/* The axes of both operands; strides in bytes. Iteration is over axes [top, last). */
struct axes {
    int64_t n[RANK], inside[RANK], before[RANK], d[RANK], s[RANK];
    int top, last;
};

static int is_unpadded(const struct axes *x, int i) { return x->before[i] == 0 && x->n[i] == x->inside[i]; }

/* Merges axis `last` into the one outside it, if it has no padding and both are contiguous. Only a constant
 * can pad merged axes. */
static int merge_last(struct axes *x, int64_t mode) {
    const int i = x->last;
    if (i == 0 || !is_unpadded(x, i) || x->d[i - 1] != x->d[i] * x->n[i] ||
        x->s[i - 1] != x->s[i] * x->n[i] || (mode != CONSTANT && !is_unpadded(x, i - 1)))
        return 0;
    x->n[i - 1] *= x->n[i];
    x->inside[i - 1] *= x->n[i];
    x->before[i - 1] *= x->n[i];
    x->d[i - 1] = x->d[i];
    x->s[i - 1] = x->s[i];
    x->last--;
    return 1;
}

static struct axes read_axes(const struct pad_args *a) {
    struct axes x = {.last = RANK - 1};
    for (int i = 0; i < RANK; i++) {
        x.n[i] = a->n[i];
        x.inside[i] = a->inside[i];
        x.before[i] = a->before[i];
        x.d[i] = a->d[i] * a->size;
        x.s[i] = a->s[i] * a->size;
    }
    while (merge_last(&x, a->mode))
        ;
    while (x.top < x.last && x.n[x.top] == 1 && x.inside[x.top] == 1 && x.before[x.top] == 0)
        x.top++;
    return x;
}

/* Writes rows [from, to) along the innermost iterated axis, many at once if they are contiguous or only need
 * constants. */
static void pad_rows(const row_pad *t, const struct axes *x, int64_t from, int64_t to, char *dst,
                     const char *src) {
    const int inner = x->last - 1;
    const int dense = t->d == t->size && t->s == t->size;
    const int framed = dense && t->mode == CONSTANT && t->before >= 0 && t->before + t->inside <= t->n;
    const int64_t bytes = t->n * t->size;
    const int joined = dense && is_unpadded(x, x->last) && x->d[inner] == bytes && x->s[inner] == bytes;
    for (int64_t i = from, many; i < to; i += many) {
        const run r = padded_run(t->mode, i - x->before[inner], x->inside[inner]);
        const char *at = src && r.k >= 0 ? src + r.k * x->s[inner] : NULL;
        many = at && r.step == 1 && (framed || joined) ? (r.count < to - i ? r.count : to - i) : 1;
        if (at && r.step == 1 && joined) {
            move_run(dst + i * bytes, at, many * bytes);
        } else if (at && framed) {
            FRAME[size_index(t->size)](t, dst + i * x->d[inner], x->d[inner], at, x->s[inner], many);
        } else {
            pad_row(t, dst + i * x->d[inner], at);
        }
    }
}

static int is_empty(const struct pad_args *a) {
    for (int i = 0; i < RANK; i++)
        if (a->n[i] == 0)
            return 1;
    return 0;
}

/* The index of row number `row` along the iterated axes. */
static void index_of_row(const struct axes *x, int64_t row, int64_t *index) {
    for (int i = x->last - 1; i >= x->top; i--) {
        index[i] = row % x->n[i];
        row /= x->n[i];
    }
}

/* Moves `index` to the start of the next block of rows, past the last row of the innermost iterated axis. */
static void next_block(const struct axes *x, int64_t *index) {
    const int inner = x->last - 1;
    index[inner] = x->n[inner];
    for (int i = inner; i > x->top && index[i] == x->n[i]; i--) {
        index[i] = 0;
        index[i - 1]++;
    }
}

/* Writes rows [first, stop) in blocks that differ only in the innermost iterated axis. */
static void pad_blocks(const row_pad *t, const struct axes *x, int64_t first, int64_t stop, char *to,
                       const char *of) {
    const int inner = x->last - 1;
    int64_t index[RANK];
    index_of_row(x, first, index);
    for (int64_t row = first; row < stop; next_block(x, index)) {
        char *dst = to;
        const char *src = of;
        for (int i = x->top; i < inner; i++) {
            const int64_t k = padded_index(t->mode, index[i] - x->before[i], x->inside[i]);
            dst += index[i] * x->d[i];
            src = src && k >= 0 ? src + k * x->s[i] : NULL;
        }
        const int64_t from = index[inner];
        const int64_t end = x->n[inner] - from < stop - row ? x->n[inner] : from + stop - row;
        pad_rows(t, x, from, end, dst, src);
        row += end - from;
    }
}

GW_KERNEL(gw_pad_nd) {
    (void)scratch;
    static const _Alignas(16) char zeros[16];
    const struct pad_args *a = pad_args(arg);
    if (is_empty(a))
        return 0;
    const struct axes x = read_axes(a);
    const int last = x.last;
    const row_pad t = {a->size,        a->mode,   x.n[last], x.inside[last],
                       x.before[last], x.d[last], x.s[last], buf[PAD_FILL] ? buf[PAD_FILL] : zeros};
    int64_t rows = 1, first, stop;
    for (int i = x.top; i < last; i++)
        rows *= x.n[i];
    /* A single long row is not split between threads: such tensors are rare. */
    unit_items(rows, a->units, begin, end, &first, &stop);
    if (x.top < last)
        pad_blocks(&t, &x, first, stop, buf[PAD_DST], buf[PAD_SRC]);
    else if (first < stop)
        pad_row(&t, buf[PAD_DST], buf[PAD_SRC]);
    return 0;
}
