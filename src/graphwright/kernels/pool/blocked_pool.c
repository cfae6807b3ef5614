/* Pooling in channel-blocked layouts: see blocked_pool.py. */

#include "pool/blocked_pool.gen.h"

#include "library/templates.h"

#define AHEAD 1024 /* minimal prefetch distance to L1, in elements */

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

#define TEMPLATE "pool/blocked_pool_of.h"
#include "pool/each_reduction.h"

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
        columns[o] = (float)divisor_of(o * s.stride_w - s.pad_left, s.w, s.kw, s.dilation_w, s.pad_right,
                                       s.count_include_pad);
    struct position p = position_of(&s, begin);
    for (; begin < end; begin++, next_position(&s, &p)) {
        float *to = y + p.image * s.y_n + p.block * s.y_cb + p.oy * s.y_h;
        average_row(&s, x + p.image * s.x_n + p.block * s.x_cb, p.oy, line, to);
        const float rows = (float)divisor_of(p.oy * s.stride_h - s.pad_top, s.h, s.kh, s.dilation_h,
                                             s.pad_bottom, s.count_include_pad);
        for (int64_t o = 0; o < s.ow; o++)
            vf_store(to + o * VL, vf_load(to + o * VL) / vf_set1(rows * columns[o]));
    }
    return 0;
}
