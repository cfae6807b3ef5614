/* Max pooling of bytes: see byte_pool.py. */

#include "pool/byte_pool.gen.h"

#include "pool/pool_rows.h"

enum { LANES = 16 };

typedef uint8_t vb __attribute__((vector_size(LANES), aligned(1), may_alias));

GW_INLINE vb load(const uint8_t *p) { return *(const vb *)p; }
GW_INLINE void store(uint8_t *p, vb x) { *(vb *)p = x; }
GW_INLINE vb vb_larger(vb a, vb b) {
    vb r;
    __asm__("vpmaxub %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return r;
}
/* Bytes 0, 2, 4, ... of the 2 * LANES bytes at p. */
GW_INLINE vb load_even(const uint8_t *p) {
    return __builtin_shufflevector(load(p), load(p + LANES), 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
                                   26, 28, 30);
}

/* line[i] = the maximum of line[i] and x[i] ^ flip. */
GW_INLINE void add_row(uint8_t *line, const uint8_t *x, int64_t n, uint8_t flip) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(line + i, vb_larger(load(line + i), load(x + i) ^ flip));
    for (; i < n; i++) {
        const uint8_t v = x[i] ^ flip;
        line[i] = v > line[i] ? v : line[i];
    }
}

/* The maxima of LANES windows, which begin at line, line + stride, ... */
GW_INLINE vb windows(const uint8_t *line, int64_t kernel, int64_t dilation, int64_t stride) {
    vb most = {0};
    for (int64_t k = 0; k < kernel; k++, line += dilation) {
        vb tap;
        if (stride == 1)
            tap = load(line);
        else if (stride == 2)
            tap = load_even(line);
        else
            for (int i = 0; i < LANES; i++)
                tap[i] = line[i * stride];
        most = vb_larger(most, tap);
    }
    return most;
}

GW_INLINE void sweep(const struct pool_args *t, const uint8_t *line, uint8_t *y, int64_t stride,
                     uint8_t flip) {
    const int64_t out = t->out[W], kernel = t->kernel[W], dilation = t->dilation[W];
    int64_t o = 0;
    for (; o + LANES <= out; o += LANES)
        store(y + o, windows(line + o * stride, kernel, dilation, stride) ^ flip);
    if (o < out) {
        const vb last = windows(line + o * stride, kernel, dilation, stride) ^ flip;
        memcpy(y + o, &last, (size_t)(out - o));
    }
}

/* One output row. line: zeros, except for the row that the last call left. */
static void pool_row(const struct pool_args *t, const struct position *p, const uint8_t *x, uint8_t *y,
                     uint8_t *line, uint8_t flip) {
    const struct taps planes = taps_of(t, D, p->d), rows = taps_of(t, H, p->h);
    uint8_t *inside = line + t->before[W];
    x += p->n * t->xs[0] + p->c * t->xs[1];
    y += output_at(t, p);
    memset(inside, 0, (size_t)t->size[W]);
    for (int64_t kd = planes.first; kd < planes.last; kd++)
        for (int64_t kh = rows.first; kh < rows.last; kh++) {
            const int64_t z = p->d * t->stride[D] - t->before[D] + kd * t->dilation[D];
            const int64_t i = p->h * t->stride[H] - t->before[H] + kh * t->dilation[H];
            add_row(inside, x + z * t->xs[2] + i * t->xs[3], t->size[W], flip);
        }
    if (t->stride[W] == 1)
        sweep(t, line, y, 1, flip);
    else if (t->stride[W] == 2)
        sweep(t, line, y, 2, flip);
    else
        sweep(t, line, y, t->stride[W], flip);
}

static int32_t run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, uint8_t *line,
                   uint8_t flip) {
    const struct pool_args *t = pool_args(arg);
    if (t->out[W] == 0 || begin >= end)
        return 0;
    const int64_t reach = (t->out[W] + LANES) * t->stride[W] + t->kernel[W] * t->dilation[W] + LANES;
    memset(line, 0, (size_t)(reach + t->before[W] + t->size[W]));
    struct position p = position_of(t, begin);
    for (int64_t row = begin; row < end; row++, next_position(t, &p))
        pool_row(t, &p, buf[POOL_X], buf[POOL_Y], line, flip);
    return 0;
}

GW_KERNEL(gw_max_pool_u8) { return run(buf, arg, begin, end, scratch, 0); }

GW_KERNEL(gw_max_pool_s8) { return run(buf, arg, begin, end, scratch, 0x80); }
