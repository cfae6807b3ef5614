/* Reductions over the rows and columns of windows. Included by each_reduction.h. */

#define OF(name) GW_JOIN(OP, name)

GW_INLINE void OF(some_rows)(const struct rows *r, float *line, int64_t rows) {
    for (int64_t i = 0; i < r->n; i += VL) {
        const float *x = r->x + i;
        __builtin_prefetch(x + r->ahead);
        vf v = vf_load(x);
        for (int64_t k = 1; k < rows; k++)
            v = COMBINE(v, vf_load(x + k * r->step));
        vf_store(line + i, v);
    }
}

static void OF(rows)(const struct rows *r, float *line) {
    if (r->rows == 3)
        OF(some_rows)(r, line, 3);
    else if (r->rows == 2)
        OF(some_rows)(r, line, 2);
    else if (r->rows > 0)
        OF(some_rows)(r, line, r->rows);
    else
        for (int64_t i = 0; i < r->n; i += VL)
            vf_store(line + i, vf_set1(IDENTITY));
}

GW_INLINE void OF(some_columns)(const struct columns *c, int64_t kernel, int64_t stride, int64_t dilation) {
    const float *from = c->line;
    for (int64_t o = 0; o < c->out; o++, from += stride) {
        vf v = vf_load(from);
        for (int64_t k = 1; k < kernel; k++)
            v = COMBINE(v, vf_load(from + k * dilation));
        vf_store(c->y + o * VL, v);
    }
}

static void OF(columns)(const struct columns *c) {
    if (c->kernel == 3 && c->dilation == VL)
        OF(some_columns)(c, 3, c->stride, VL);
    else if (c->kernel == 2 && c->dilation == VL)
        OF(some_columns)(c, 2, c->stride, VL);
    else
        OF(some_columns)(c, c->kernel, c->stride, c->dilation);
}

/* Fills the line: pad_left identities, w values, and identities up to the last tap. Returns its end. */
static float *OF(line)(const struct blocked_pool_args *s, float *line) {
    const int64_t reach = (s->ow - 1) * s->stride_w + (s->kw - 1) * s->dilation_w + 1;
    const int64_t length = reach > s->pad_left + s->w ? reach : s->pad_left + s->w;
    for (int64_t i = 0; i < s->pad_left; i++)
        vf_store(line + i * VL, vf_set1(IDENTITY));
    for (int64_t i = s->pad_left + s->w; i < length; i++)
        vf_store(line + i * VL, vf_set1(IDENTITY));
    return line + length * VL;
}

/* Computes output row oy of a plane. */
GW_INLINE void OF(row)(const struct blocked_pool_args *s, const float *x, int64_t oy, float *line, float *y) {
    const int64_t top = oy * s->stride_h - s->pad_top;
    const struct taps inside = taps_inside(top, s->h, s->kh, s->dilation_h);
    const int64_t count = inside.last - inside.first;
    const struct rows rows = {
        .x = x + (top + inside.first * s->dilation_h) * s->x_h,
        .rows = count,
        .step = s->dilation_h * s->x_h,
        .n = s->w * VL,
        .ahead = count * s->dilation_h * s->x_h + (s->x_h < AHEAD ? AHEAD : 0),
    };
    const struct columns columns = {
        .line = line,
        .y = y,
        .out = s->ow,
        .kernel = s->kw,
        .stride = s->stride_w * VL,
        .dilation = s->dilation_w * VL,
    };
    OF(rows)(&rows, line + s->pad_left * VL);
    OF(columns)(&columns);
}

#undef OF
