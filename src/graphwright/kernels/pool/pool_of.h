/* Reductions over the rows and columns of windows. Included by each_reduction.h. */

#define OF(name) GW_JOIN(OP, name)

/* line[i] = line[i] (OP) x[i]; x[i] for the first row. */
GW_INLINE void OF(add_row)(float *line, const float *x, int64_t n, int first) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(line + i, first ? vf_load(x + i) : COMBINE(vf_load(line + i), vf_load(x + i)));
    if (i < n)
        vf_store_n(line + i,
                   first ? vf_load_n(x + i, n - i) : COMBINE(vf_load(line + i), vf_load_n(x + i, n - i)),
                   n - i);
}

/* Reduces three rows at once, the usual window: one store instead of three. */
GW_INLINE void OF(three_rows)(float *line, const float *a, const float *b, const float *c, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(line + i, COMBINE(COMBINE(vf_load(a + i), vf_load(b + i)), vf_load(c + i)));
    if (i < n)
        vf_store_n(
            line + i,
            COMBINE(COMBINE(vf_load_n(a + i, n - i), vf_load_n(b + i, n - i)), vf_load_n(c + i, n - i)),
            n - i);
}

/* Reduces any number of rows at once, so that the line is stored once. */
GW_INLINE void OF(window_rows)(float *line, const float *x, int64_t step, int64_t rows, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf r = vf_load(x + i);
        for (int64_t k = 1; k < rows; k++)
            r = COMBINE(r, vf_load(x + k * step + i));
        vf_store(line + i, r);
    }
    if (i < n) {
        vf r = vf_load_n(x + i, n - i);
        for (int64_t k = 1; k < rows; k++)
            r = COMBINE(r, vf_load_n(x + k * step + i, n - i));
        vf_store_n(line + i, r, n - i);
    }
}

/* Reduces the rows of the window of output row p into line. */
static void OF(rows)(const struct pool_args *t, const float *x, float *line, const struct position *p) {
    int64_t d = p->d, h = p->h;
    const struct taps planes = taps_of(t, D, d), rows = taps_of(t, H, h);
    const int64_t h0 = rows.first, h1 = rows.last, step = t->dilation[H] * t->xs[3], width = t->size[W];
    int first = 1;
    x += p->n * t->xs[0] + p->c * t->xs[1] + (h * t->stride[H] - t->before[H]) * t->xs[3];
    for (int64_t kd = planes.first; kd < planes.last; kd++) {
        const float *plane = x + (d * t->stride[D] - t->before[D] + kd * t->dilation[D]) * t->xs[2];
        int64_t kh = h0;
        if (first && h1 - h0 == 3)
            OF(three_rows)(line, plane + kh * step, plane + (kh + 1) * step, plane + (kh + 2) * step, width);
        else if (first && h1 > h0)
            OF(window_rows)(line, plane + kh * step, step, h1 - h0, width);
        if (first && h1 > h0) {
            kh = h1;
            first = 0;
        }
        for (; kh < h1; kh++, first = 0)
            OF(add_row)(line, plane + kh * step, width, first);
    }
    for (int64_t i = 0; first && i < width; i++)
        line[i] = IDENTITY;
}

/* Reduces the columns of VL windows, which begin at line, line + stride, ...; the stride is 1 or 2. */
GW_INLINE vf OF(windows)(const float *line, int64_t kernel, int64_t dilation, int64_t stride) {
    vf r = {0};
    for (int64_t k = 0; k < kernel; k++, line += dilation) {
        vf tap = stride == 1 ? vf_load(line) : vf_load_even(line);
        r = k ? COMBINE(r, tap) : tap;
    }
    return r;
}

/* Reduces all windows of the line; the last vector reads beyond its end, inside the scratch. */
GW_INLINE void OF(sweep)(const float *line, float *y, int64_t out, int64_t kernel, int64_t dilation,
                         int64_t stride) {
    int64_t o = 0;
    for (; o + VL <= out; o += VL)
        vf_store(y + o, OF(windows)(line + o * stride, kernel, dilation, stride));
    if (o < out)
        vf_store_n(y + o, OF(windows)(line + o * stride, kernel, dilation, stride), out - o);
}

/* As sweep, for any stride. */
static void OF(sweep_phases)(struct phases p, float *y, int64_t out, int64_t kernel, int64_t dilation) {
    for (int64_t o = 0; o < out; o += VL) {
        vf r = vf_load(p.first + o);
        for (int64_t k = 1, column = o, phase = 0; k < kernel; k++) {
            phase += dilation % p.stride;
            column += dilation / p.stride + (phase >= p.stride);
            phase -= phase >= p.stride ? p.stride : 0;
            r = COMBINE(r, vf_load(p.first + phase * p.length + column));
        }
        if (o + VL <= out)
            vf_store(y + o, r);
        else
            vf_store_n(y + o, r, out - o);
    }
}

static void OF(reduce_columns)(const struct pool_args *t, const float *line, float *phases, float *y) {
    int64_t kernel = t->kernel[W], dilation = t->dilation[W], stride = t->stride[W], out = t->out[W];
    if (kernel == 3 && dilation == 1 && stride == 1)
        OF(sweep)(line, y, out, 3, 1, 1);
    else if (kernel == 3 && dilation == 1 && stride == 2)
        OF(sweep)(line, y, out, 3, 1, 2);
    else if (kernel == 2 && dilation == 1 && stride == 2)
        OF(sweep)(line, y, out, 2, 1, 2);
    else if (stride == 1)
        OF(sweep)(line, y, out, kernel, dilation, 1);
    else if (stride == 2)
        OF(sweep)(line, y, out, kernel, dilation, 2);
    else
        OF(sweep_phases)(split_line(t, line, phases), y, out, kernel, dilation);
}

/* Loads the first n elements of two vectors from p on. */
GW_INLINE void OF(load_two)(const float *p, int64_t n, vf *low, vf *high) {
    *low = n < VL ? vf_load_n(p, n) : vf_load(p);
    *high = n <= VL ? vf_set1(0.0f) : n < 2 * VL ? vf_load_n(p + VL, n - VL) : vf_load(p + VL);
}

/* Output row p of windows that are disjoint pairs of columns: pairs are combined in registers, without a
 * line. Results are divided by count. Returns false if the window has no row. */
GW_INLINE int OF(pairs)(const struct pool_args *t, const float *x, float *y, const struct position *p,
                        int divides, float count) {
    const struct taps planes = taps_of(t, D, p->d), rows = taps_of(t, H, p->h);
    const int64_t d0 = planes.first, h0 = rows.first, step = t->dilation[H] * t->xs[3], out = t->out[W];
    if (planes.last == d0 || rows.last == h0)
        return 0;
    x += p->n * t->xs[0] + p->c * t->xs[1] + (p->h * t->stride[H] - t->before[H]) * t->xs[3] +
         (p->d * t->stride[D] - t->before[D]) * t->xs[2];
    for (int64_t o = 0; o < out; o += VL) {
        int64_t n = out - o < VL ? out - o : VL;
        vf low = vf_set1(0.0f), high = low, a, b;
        for (int64_t kd = d0; kd < planes.last; kd++)
            for (int64_t kh = h0; kh < rows.last; kh++) {
                OF(load_two)(x + kd * t->dilation[D] * t->xs[2] + kh * step + 2 * o, 2 * n, &a, &b);
                int first = kd == d0 && kh == h0;
                low = first ? a : COMBINE(low, a);
                high = first ? b : COMBINE(high, b);
            }
        vf r = COMBINE(vf_even(low, high), vf_odd(low, high));
        r = divides ? r / vf_set1(count) : r;
        if (n == VL)
            vf_store(y + o, r);
        else
            vf_store_n(y + o, r, n);
    }
    return 1;
}

/* Fills the line: `before` identities, `size` values, and identities up to the last tap. */
static float *OF(line)(const struct pool_args *t, float *scratch) {
    int64_t reach = (t->out[W] - 1) * t->stride[W] + (t->kernel[W] - 1) * t->dilation[W] + 1;
    int64_t length = reach > t->before[W] + t->size[W] ? reach : t->before[W] + t->size[W];
    for (int64_t i = 0; i < length; i++)
        scratch[i] = IDENTITY;
    return scratch + length;
}

#undef OF
