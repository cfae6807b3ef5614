/* Resizing with TAPS taps per axis. Included by resize.c, once for each MODE. */

#define OF(name) GW_JOIN(name, MODE)

/* The taps of each output column o: index[tap][o] and weight[tap][o]. Columns [from, to) are upsampled by 2:
 * index[tap][2m] is m + even[tap], and index[tap][2m + 1] is m + odd[tap]. */
typedef struct {
    int32_t *index;
    float *weight;
    int64_t out, from, to, even[TAPS], odd[TAPS];
} OF(columns);

static int OF(is_doubled)(const OF(columns) * c, int64_t m) {
    for (int k = 0; k < TAPS; k++) {
        const int32_t *index = c->index + k * c->out + 2 * m;
        if (index[0] - m != c->even[k] || index[1] - m != c->odd[k])
            return 0;
    }
    return 1;
}

static void OF(find_doubled)(OF(columns) * c) {
    int64_t pairs = c->out / 2, middle = pairs / 2, first = middle, last = middle;
    c->from = c->to = 0;
    if (pairs < VL)
        return;
    for (int k = 0; k < TAPS; k++) {
        c->even[k] = c->index[k * c->out + 2 * middle] - middle;
        c->odd[k] = c->index[k * c->out + 2 * middle + 1] - middle;
    }
    while (first > 0 && OF(is_doubled)(c, first - 1))
        first--;
    while (last < pairs && OF(is_doubled)(c, last))
        last++;
    c->from = 2 * first;
    c->to = 2 * last;
}

static OF(columns) OF(columns_of)(const struct resize_args *t, int32_t *scratch) {
    OF(columns) c = {.index = scratch, .weight = (float *)(scratch + TAPS * t->w.out), .out = t->w.out};
    for (int64_t o = 0; o < c.out; o++) {
        int64_t index[TAPS];
        float weight[TAPS];
        OF(taps)(&t->how, &t->w, o, index, weight);
        for (int k = 0; k < TAPS; k++) {
            c.index[k * c.out + o] = (int32_t)index[k];
            c.weight[k * c.out + o] = weight[k];
        }
    }
    OF(find_doubled)(&c);
    return c;
}

GW_INLINE void OF(columns_one_by_one)(const OF(columns) * c, const float *x, float *y, int64_t from,
                                      int64_t to) {
    for (int64_t o = from; o < to; o++) {
        float sum = x[c->index[o]];
        if (TAPS > 1)
            sum *= c->weight[o];
        for (int k = 1; k < TAPS; k++)
            sum = __builtin_fmaf(x[c->index[k * c->out + o]], c->weight[k * c->out + o], sum);
        y[o] = sum;
    }
}

/* Computes columns [o, o + 2 * VL), which are all upsampled by 2. */
GW_INLINE void OF(resize_doubled)(const OF(columns) * c, const float *x, float *y, int64_t o) {
    vf low = {0}, high = {0};
    for (int k = 0; k < TAPS; k++) {
        vf even = vf_load(x + o / 2 + c->even[k]), odd = vf_load(x + o / 2 + c->odd[k]);
        vf a = __builtin_shufflevector(even, odd, LANES(LOW)),
           b = __builtin_shufflevector(even, odd, LANES(HIGH));
        const float *weight = c->weight + k * c->out + o;
        low = TAPS == 1 ? a : k == 0 ? a * vf_load(weight) : vf_fma(a, vf_load(weight), low);
        high = TAPS == 1 ? b : k == 0 ? b * vf_load(weight + VL) : vf_fma(b, vf_load(weight + VL), high);
    }
    vf_store(y + o, low);
    vf_store(y + o + VL, high);
}

/* Resizes one row of x along the width; the last vectors upsampled by 2 overlap those before. */
static void OF(resize_columns)(const OF(columns) * c, const float *x, float *y) {
    int64_t o = c->from;
    OF(columns_one_by_one)(c, x, y, 0, o);
    for (; o + 2 * VL <= c->to; o += 2 * VL)
        OF(resize_doubled)(c, x, y, o);
    if (o < c->to && c->to - c->from >= 2 * VL) {
        OF(resize_doubled)(c, x, y, c->to - 2 * VL);
        o = c->to;
    }
    OF(columns_one_by_one)(c, x, y, o, c->out);
}

/* y = the sum of weight[k] * line[k]. */
static void OF(blend)(const float *const *line, const float *weight, float *y, int64_t n) {
    int64_t i = 0, some = n % VL;
    for (; i + VL <= n; i += VL) {
        vf sum = vf_load(line[0] + i) * weight[0];
        for (int k = 1; k < TAPS; k++)
            sum = vf_fma(vf_load(line[k] + i), vf_set1(weight[k]), sum);
        vf_store(y + i, sum);
    }
    if (some == 0)
        return;
    vf sum = vf_load_n(line[0] + i, some) * weight[0];
    for (int k = 1; k < TAPS; k++)
        sum = vf_fma(vf_load_n(line[k] + i, some), vf_set1(weight[k]), sum);
    vf_store_n(y + i, sum, some);
}

/* The taps of an output row. */
typedef struct {
    int64_t index[TAPS];
    float weight[TAPS];
} OF(row);

/* The rows of x that the taps of an output row read, resized, and the row that each was computed from. Taps
 * are adjacent, so no two of them share a slot. */
typedef struct {
    float *resized;
    const float *from[TAPS];
} OF(lines);

/* Resizes the rows x of the taps that are not among `lines` yet, and blends all of them. */
static void OF(blend_resized)(const OF(columns) * c, const float *const *x, const OF(row) * taps,
                              OF(lines) * lines, float *y) {
    const float *line[TAPS];
    for (int k = 0; k < TAPS; k++) {
        const int64_t slot = taps->index[k] % TAPS;
        line[k] = lines->resized + slot * c->out;
        if (lines->from[slot] != x[k])
            OF(resize_columns)(c, x[k], lines->resized + slot * c->out);
        lines->from[slot] = x[k];
    }
    OF(blend)(line, taps->weight, y, c->out);
}

/* Whether rows are blended before columns are resized: each output row then resizes one row instead of
 * `fresh` ones. Measured: a blended element takes a 15th of the time of a column and tap. */
static int OF(blends_first)(const struct resize_args *t) {
    const double skipped = 1 / t->h.scale, fresh = skipped < TAPS ? skipped : TAPS;
    return TAPS > 1 && (fresh - 1) * 15 * (double)t->w.out > (double)t->w.in;
}

/* Scratch holds the taps of each output row of a plane, indices, weights, and one resized row of x per tap,
 * or one blended row. */
GW_KERNEL(KERNEL) {
    struct resize_args t;
    memcpy(&t, arg, sizeof t);
    if (t.w.out == 0 || t.h.in == 0 || t.w.in == 0 || begin >= end)
        return 0;
    t.h.scale = t.h.scale != 0.0 ? t.h.scale : (double)t.h.out / (double)t.h.in;
    t.w.scale = t.w.scale != 0.0 ? t.w.scale : (double)t.w.out / (double)t.w.in;
    OF(row) *const rows = scratch;
    const OF(columns) columns = OF(columns_of)(&t, (int32_t *)(rows + t.h.out));
    OF(lines) lines = {.resized = columns.weight + TAPS * columns.out};
    const float *previous = NULL; /* the row of y before this one */
    const int blends_first = OF(blends_first)(&t);
    int64_t plane = begin / t.h.out, o = begin % t.h.out;
    for (int64_t row = begin; row < end; row++) {
        float *const y = (float *)buf[RESIZE_Y] + plane * t.y_plane + o * t.y_row;
        const float *x[TAPS];
        if (row - begin < t.h.out) /* rows of later planes have the same taps */
            OF(taps)(&t.how, &t.h, o, rows[o].index, rows[o].weight);
        for (int k = 0; k < TAPS; k++)
            x[k] = (const float *)buf[RESIZE_X] + plane * t.x_plane + rows[o].index[k] * t.x_row;
        if (TAPS == 1 && lines.from[0] == x[0]) {
            copy_row(previous, columns.out, y);
        } else if (TAPS == 1) {
            OF(resize_columns)(&columns, x[0], y);
            lines.from[0] = x[0];
        } else if (blends_first) {
            OF(blend)(x, rows[o].weight, lines.resized, t.w.in);
            OF(resize_columns)(&columns, lines.resized, y);
        } else {
            OF(blend_resized)(&columns, x, &rows[o], &lines, y);
        }
        previous = y;
        if (++o < t.h.out)
            continue;
        o = 0;
        plane++;
    }
    return 0;
}

#undef OF
