/* Resizing with TAPS taps per axis. Included by blocked_resize.c, once for each MODE. */

#define OF(name) GW_JOIN(name, MODE)

/* y[o] = the sum over rows i and taps k of row_weight[i] * weight[o][k] * row[i][offset[o][k]]. */
static void OF(resize_row)(const float *const *row, const float *row_weight, const int64_t *offset,
                           const float *weight, int64_t n, float *y) {
    for (int64_t o = 0; o < n; o++, offset += TAPS, weight += TAPS) {
        vf_store(y + o * VL, pixel(row, row_weight, offset, weight, TAPS));
    }
}

/* Scratch holds offsets, then weights. */
GW_KERNEL(KERNEL) {
    const float *const x = buf[BLOCKED_RESIZE_X];
    float *const y = buf[BLOCKED_RESIZE_Y];
    struct blocked_resize_args s;
    memcpy(&s, arg, sizeof s);
    if (s.ow == 0 || s.h == 0 || s.w == 0 || begin >= end)
        return 0;
    const sampling t = {
        .coordinates = s.coordinates,
        .rounding = s.rounding,
        .exclude_outside = s.exclude_outside,
        .cubic_a = double_of(s.cubic_a),
    };
    const axis h = axis_of(s.h, s.oh, s.scale_h), w = axis_of(s.w, s.ow, s.scale_w);
    int64_t *const offset = scratch, index[TAPS];
    float *const weight = (float *)(void *)(offset + TAPS * s.ow), row_weight[TAPS];
    for (int64_t o = 0; o < s.ow; o++) {
        OF(taps)(&t, &w, o, index, weight + TAPS * o);
        for (int k = 0; k < TAPS; k++)
            offset[TAPS * o + k] = index[k] * VL;
    }
    const int64_t blocks = ceildiv(s.channels, VL);
    for (; begin < end; begin++) {
        const int64_t plane = quotient(begin, s.oh), oy = begin - plane * s.oh;
        const int64_t image = quotient(plane, blocks), block = plane - image * blocks;
        const float *row[TAPS];
        OF(taps)(&t, &h, oy, index, row_weight);
        for (int k = 0; k < TAPS; k++)
            row[k] = x + image * s.x_n + block * s.x_cb + index[k] * s.x_h;
        OF(resize_row)(row, row_weight, offset, weight, s.ow,
                       y + image * s.y_n + block * s.y_cb + oy * s.y_h);
    }
    return 0;
}

#undef OF
