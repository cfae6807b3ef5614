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

#define SIZE 1
#include "movement/frame_of.h"
#undef SIZE
#define SIZE 2
#include "movement/frame_of.h"
#undef SIZE
#define SIZE 4
#include "movement/frame_of.h"
#undef SIZE
#define SIZE 8
#include "movement/frame_of.h"
#undef SIZE
#define SIZE 16
#include "movement/frame_of.h"
#undef SIZE

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

GW_KERNEL(gw_pad_nd) {
    (void)scratch;
    static const _Alignas(16) char zeros[16];
    const struct pad_args *a = pad_args(arg);
    int64_t size = a->size, mode = a->mode, n[RANK], inside[RANK], before[RANK], d[RANK], s[RANK];
    for (int i = 0; i < RANK; i++) {
        n[i] = a->n[i];
        inside[i] = a->inside[i];
        before[i] = a->before[i];
        d[i] = a->d[i] * size;
        s[i] = a->s[i] * size;
        if (n[i] == 0)
            return 0;
    }
    int last = RANK - 1; /* constant padding: whole inner axes are merged into the axis outside them */
    while (mode == CONSTANT && last > 0 && before[last] == 0 && n[last] == inside[last] &&
           d[last - 1] == d[last] * n[last] && s[last - 1] == s[last] * n[last]) {
        n[last - 1] *= n[last];
        inside[last - 1] *= n[last];
        before[last - 1] *= n[last];
        d[last - 1] = d[last];
        s[last - 1] = s[last];
        last--;
    }
    row_pad t = {size,         mode,    n[last], inside[last],
                 before[last], d[last], s[last], buf[PAD_FILL] ? buf[PAD_FILL] : zeros};
    int top = 0; /* the first axis that is iterated over */
    while (top < last && n[top] == 1 && inside[top] == 1 && before[top] == 0)
        top++;
    int64_t rows = 1, first, stop, index[RANK];
    for (int i = top; i < last; i++)
        rows *= n[i];
    /* A single long row is not split between threads: such tensors are rare. */
    share(rows, a->shares, begin, end, &first, &stop);
    int64_t rest = first;
    for (int i = last - 1; i >= top; i--) {
        index[i] = rest % n[i];
        rest /= n[i];
    }
    int framed = mode == CONSTANT && t.d == size && t.s == size && t.before >= 0 &&
                 t.before + t.inside <= t.n; /* whole rows with constants around them */
    if (top == last) {
        if (first < stop)
            pad_row(&t, buf[PAD_DST], buf[PAD_SRC]);
        return 0;
    }
    for (int64_t row = first, inner = last - 1; row < stop;) { /* along the inner axis, many rows at once */
        char *dst = buf[PAD_DST];
        const char *src = buf[PAD_SRC];
        for (int i = top; i < inner; i++) {
            int64_t k = padded_index(mode, index[i] - before[i], inside[i]);
            dst += index[i] * d[i];
            src = src && k >= 0 ? src + k * s[i] : NULL;
        }
        int64_t from = index[inner], to = n[inner] - from < stop - row ? n[inner] : from + stop - row;
        for (int64_t i = from; i < to;) {
            int64_t k = padded_index(mode, i - before[inner], inside[inner]), many = 1;
            const char *at = src && k >= 0 ? src + k * s[inner] : NULL;
            if (at && framed) {
                many = to - i < inside[inner] - k ? to - i : inside[inner] - k;
                FRAME[size_index(size)](&t, dst + i * d[inner], d[inner], at, s[inner], many);
            } else {
                pad_row(&t, dst + i * d[inner], at);
            }
            i += many;
        }
        row += to - from;
        index[inner] = n[inner];
        for (int i = (int)inner; i > top && index[i] == n[i]; i--) {
            index[i] = 0;
            index[i - 1]++;
        }
    }
    return 0;
}
