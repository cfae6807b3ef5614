/* Pooling in channel-blocked layouts: see blocked_pool.py. */

#include "pool/blocked_pool.gen.h"

#include "library/templates.h"
#include "library/windows.h"

#define AHEAD 1024 /* minimal prefetch distance to L1, in elements */

GW_INLINE vf sum(vf a, vf b) { return a + b; }
/* The larger one, NaN if either is NaN: the instruction returns b if one is NaN, so only a needs a test. */
GW_INLINE vf vf_larger(vf a, vf b) {
    vf r;
    __asm__("vmaxps %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return vf_select(a != a, a, r);
}

/* The divisor of an average: the taps inside the image, or also those in the padding; 1 if there is none. */
static int64_t divisor(int64_t at, int64_t size, int64_t kernel, int64_t dilation, int64_t after,
                       int64_t include_pad) {
    if (!include_pad) {
        const struct taps inside = taps_inside(at, size, kernel, dilation);
        return inside.last > inside.first ? inside.last - inside.first : 1;
    }
    return at < size + after ? smaller(ceildiv(size + after - at, dilation), kernel) : 1;
}

/* The rows of a window: `rows` rows of n elements from x on, `step` elements apart. */
struct rows {
    const float *x;
    int64_t rows, step, n, ahead;
};

/* The windows of a row: tap k of window o is at line + o * stride + k * dilation (elements). */
struct columns {
    const float *line;
    float *y;
    int64_t out, kernel, stride, dilation;
};

#define OP max
#define IDENTITY -__builtin_inff()
#define COMBINE vf_larger
#include "pool/blocked_pool_of.h"
#undef OP
#undef IDENTITY
#undef COMBINE
#define OP average
#define IDENTITY 0.0f
#define COMBINE sum
#include "pool/blocked_pool_of.h"
#undef OP
#undef IDENTITY
#undef COMBINE

/* The position of an output row. */
struct position {
    int64_t image, block, oy;
};

GW_INLINE struct position position_of(const struct blocked_pool_args *s, int64_t unit) {
    const int64_t blocks = ceildiv(s->channels, VL), plane = quotient(unit, s->oh);
    const int64_t image = quotient(plane, blocks);
    return (struct position){image, plane - image * blocks, unit - plane * s->oh};
}

GW_INLINE void next_position(const struct blocked_pool_args *s, struct position *p) {
    if (++p->oy < s->oh)
        return;
    p->oy = 0;
    if (++p->block < ceildiv(s->channels, VL))
        return;
    p->block = 0;
    p->image++;
}

GW_KERNEL(gw_max_pool_blocked_f32) {
    const float *const x = buf[BLOCKED_POOL_X];
    float *const y = buf[BLOCKED_POOL_Y];
    struct blocked_pool_args s;
    memcpy(&s, arg, sizeof s);
    if (s.ow == 0 || begin >= end)
        return 0;
    float *line = scratch;
    max_line(&s, line);
    struct position p = position_of(&s, begin);
    for (; begin < end; begin++, next_position(&s, &p))
        max_row(&s, x + p.image * s.x_n + p.block * s.x_cb, p.oy, line,
                y + p.image * s.y_n + p.block * s.y_cb + p.oy * s.y_h);
    return 0;
}

GW_KERNEL(gw_average_pool_blocked_f32) {
    const float *const x = buf[BLOCKED_POOL_X];
    float *const y = buf[BLOCKED_POOL_Y];
    struct blocked_pool_args s;
    memcpy(&s, arg, sizeof s);
    if (s.ow == 0 || begin >= end)
        return 0;
    float *line = scratch, *columns = average_line(&s, line);
    for (int64_t o = 0; o < s.ow; o++)
        columns[o] = (float)divisor(o * s.stride_w - s.pad_left, s.w, s.kw, s.dilation_w, s.pad_right,
                                    s.count_include_pad);
    struct position p = position_of(&s, begin);
    for (; begin < end; begin++, next_position(&s, &p)) {
        float *to = y + p.image * s.y_n + p.block * s.y_cb + p.oy * s.y_h;
        average_row(&s, x + p.image * s.x_n + p.block * s.x_cb, p.oy, line, to);
        const float rows = (float)divisor(p.oy * s.stride_h - s.pad_top, s.h, s.kh, s.dilation_h,
                                          s.pad_bottom, s.count_include_pad);
        for (int64_t o = 0; o < s.ow; o++)
            vf_store(to + o * VL, vf_load(to + o * VL) / vf_set1(rows * columns[o]));
    }
    return 0;
}
