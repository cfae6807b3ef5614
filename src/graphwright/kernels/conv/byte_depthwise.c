/* Depthwise convolution of bytes: see byte_depthwise.py. */

#include "library/sizes.h"

#include "conv/byte_depthwise.gen.h"

#include "library/byte_dots.h"
#include "library/features.h"

enum { TILE_COLUMNS = 1024 }; /* pixels of a tile */
enum { ROWS = 4 };            /* output rows that are summed together */

typedef uint32_t quad; /* four neighboring pixels of a row */

struct conv {
    struct byte_depthwise_args s;
    const uint8_t *x, *w, *w_zero;
    int32_t *y;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    int64_t quads;   /* per row of a window */
    int64_t columns; /* of an expanded row: whole vectors */
    int32_t zero;    /* the zero point of x as u8 */
    int vnni;
};

/* The weights of a channel: as quads of s8, and as s16 of the even and of the odd bytes of each quad. */
struct weights {
    const quad *bytes;
    quad *even, *odd;
    int32_t start; /* minus the zero point of x times their sum */
    int are_bytes; /* whether they are s8 */
};

/* Output rows [first, last) of a channel, and the input rows [begin, end) that they read. */
struct block {
    int64_t image, channel, first, last, begin, end;
};

static quad pair_of(int32_t low, int32_t high) { return ((quad)low & 0xffff) | (quad)high << 16; }

/* Byte `tap` of a quad minus the zero point. */
static int32_t weight_at(const struct conv *g, quad weights, int64_t tap, int32_t zero) {
    const uint8_t x = (uint8_t)(weights >> 8 * tap);
    return (g->s.w_signed ? (int8_t)x : x) - zero;
}

/* Reads the packed weights of a channel; those with a zero point, or unsigned ones, are not bytes any more.
 */
static void read_weights(const struct conv *g, int64_t channel, struct weights *to) {
    const int64_t taps = g->s.kh * g->quads;
    const quad *packed = (const quad *)(const void *)g->w + channel * (1 + taps);
    const int32_t zero = !g->w_zero      ? 0
                         : g->s.w_signed ? (int8_t)g->w_zero[channel * g->s.w_zero_step]
                                         : g->w_zero[channel * g->s.w_zero_step];
    const uint32_t sum = packed[0] - (uint32_t)(g->s.kh * g->s.kw) * (uint32_t)zero;
    to->bytes = packed + 1;
    to->start = (int32_t)-((uint32_t)g->zero * sum);
    to->are_bytes = g->s.w_signed && zero == 0;
    for (int64_t i = 0; !(g->vnni && to->are_bytes) && i < taps; i++) {
        int32_t w[4];
        for (int64_t tap = 0; tap < 4; tap++)
            w[tap] = i % g->quads * 4 + tap < g->s.kw ? weight_at(g, to->bytes[i], tap, zero) : 0;
        to->even[i] = pair_of(w[0], w[2]);
        to->odd[i] = pair_of(w[1], w[3]);
    }
}

/* The quads of VL columns whose first pixels are at p. */
GW_INLINE vi quads_of(const uint8_t *p, int64_t taps, int64_t stride, int64_t dilation) {
    vq x = {0};
    if (stride == 1) {
        for (int64_t r = 0; r < taps; r++)
            x |= spread(p + r * dilation) << 8 * (int32_t)r;
    } else if (stride == 2 && dilation == 1) {
        x = spread_pairs(p);
        if (taps > 2)
            x |= spread_pairs(p + 2) << 16;
    } else {
        for (int64_t i = 0; i < VL; i++)
            for (int64_t r = 0; r < taps; r++)
                x[i] |= (quad)p[i * stride + r * dilation] << 8 * r;
    }
    return (vi)x;
}

/* The lines of input rows with their pads, and where they are expanded. */
struct lines {
    const uint8_t *from;
    int64_t pitch, count;
    quad *to;
};

GW_INLINE void expand_taps(const struct conv *g, const struct lines *l, int64_t q, int64_t taps,
                           int64_t stride, int64_t dilation) {
    const uint8_t *from = l->from + 4 * q * dilation;
    quad *to = l->to + q * g->columns;
    for (int64_t row = 0; row < l->count; row++, from += l->pitch, to += g->quads * g->columns)
        for (int64_t i = 0; i < g->columns; i += VL)
            vi_store((int32_t *)(void *)(to + i), quads_of(from + i * stride, taps, stride, dilation));
}

/* Expands lines to the quads of each column. */
static void expand(const struct conv *g, const struct lines *l) {
    const int64_t stride = g->s.stride_w, dilation = g->s.dilation_w;
    for (int64_t q = 0; q < g->quads; q++) {
        const int64_t taps = smaller(g->s.kw - 4 * q, 4);
        if (taps == 3 && stride == 1 && dilation == 1)
            expand_taps(g, l, q, 3, 1, 1);
        else if (stride == 1)
            expand_taps(g, l, q, taps, 1, dilation);
        else if (stride == 2 && dilation == 1)
            expand_taps(g, l, q, 4, 2, 1);
        else
            expand_taps(g, l, q, taps, stride, dilation);
    }
}

/* Copies the input rows that a block reads, with their pads, to lines of `pitch` bytes. */
static void copy_lines(const struct conv *g, const struct block *o, int64_t pitch, uint8_t *line) {
    const struct byte_depthwise_args *s = &g->s;
    const uint8_t *plane = g->x + (o->image * s->channels + o->channel / s->multiplier) * s->h * s->w;
    const int64_t left = s->pad_left > 0 ? s->pad_left : 0, skipped = left - s->pad_left;
    const int64_t copied = smaller(s->w - skipped, pitch - left);
    memset(line, g->zero, (size_t)((o->end - o->begin) * pitch));
    for (int64_t row = o->begin; row < o->end; row++, line += pitch) {
        const uint8_t *from = plane + row * s->w + skipped;
        if (row < 0 || row >= s->h || copied <= 0)
            continue;
        if (!s->x_signed)
            memcpy(line + left, from, (size_t)copied);
        for (int64_t i = 0; s->x_signed && i < copied; i++)
            line[left + i] = from[i] ^ 0x80;
    }
}

/* Tap i of the weights in all lanes: quads, or pairs of the even and of the odd bytes. */
struct tap {
    vi even, odd;
};

GW_INLINE struct tap tap_of(const struct weights *w, int64_t i, const int vnni) {
    if (vnni)
        return (struct tap){vi_set1((int32_t)w->bytes[i]), {0}};
    return (struct tap){vi_set1((int32_t)w->even[i]), vi_set1((int32_t)w->odd[i])};
}

GW_INLINE vi dot(vi sums, vi x, struct tap w, const int vnni) {
    if (vnni) {
        DOT(sums, x, w.even);
        return sums;
    }
    const vi even = pairs_dot(even_unsigned(x), (vs)w.even), odd = pairs_dot(odd_unsigned(x), (vs)w.odd);
    return wrapping_sum(sums, wrapping_sum(even, odd));
}

/* Sums columns of `rows` output rows, whose windows begin at `from`: each expanded row is loaded once. The
 * last vector of a row is stored first, since it can reach into the next row. */
GW_INLINE void sum_rows(const struct conv *g, const quad *from, const struct weights *w, int64_t cols,
                        const int64_t rows, const int64_t kh, const int64_t quads, const int64_t stride,
                        const int64_t dilation, const int vnni, int32_t *to) {
    const int64_t count = (rows - 1) * stride + (kh - 1) * dilation + 1, ow = g->s.ow, columns = g->columns;
    for (int64_t c = (cols - 1) / VL * VL; c >= 0; c -= VL) {
        const quad *x = from + c;
        vi sums[ROWS];
        for (int64_t r = 0; r < ROWS; r++)
            sums[r] = vi_set1(w->start);
#pragma GCC unroll 11
        for (int64_t j = 0; j < count; j++, x += quads * columns)
#pragma GCC unroll 2
            for (int64_t q = 0; q < quads; q++) {
                const vi v = vi_load((const int32_t *)(const void *)(x + q * columns));
#pragma GCC unroll 4
                for (int64_t r = 0; r < rows; r++) {
                    const int64_t i = j - r * stride;
                    if (i >= 0 && i % dilation == 0 && i / dilation < kh)
                        sums[r] = dot(sums[r], v, tap_of(w, i / dilation * quads + q, vnni), vnni);
                }
            }
#pragma GCC unroll 4
        for (int64_t r = 0; r < rows; r++)
            vi_store(to + r * ow + c, sums[r]);
    }
}

/* Sums all rows of a tile, ROWS at a time, which it has at least; the last ones may be summed twice. */
GW_INLINE void sum_blocks(const struct conv *g, const quad *from, const struct weights *w, int64_t cols,
                          int64_t rows, const int64_t kh, const int64_t quads, const int64_t stride,
                          const int vnni, int32_t *to) {
    for (int64_t r = 0; r < rows; r += ROWS) {
        const int64_t first = smaller(r, rows - ROWS);
        sum_rows(g, from + first * stride * quads * g->columns, w, cols, ROWS, kh, quads, stride, 1, vnni,
                 to + first * g->s.ow);
    }
}

/* Sums all rows of a tile; the usual windows have loops of their own. */
GW_INLINE void sum_tile(const struct conv *g, const quad *from, const struct weights *w, int64_t cols,
                        int64_t rows, const int vnni, int32_t *to) {
    const int64_t kh = g->s.kh, quads = g->quads, stride = g->s.stride_h, dilation = g->s.dilation_h;
    const int is_dense = rows >= ROWS && dilation == 1;
    if (is_dense && kh == 3 && quads == 1 && stride == 1)
        sum_blocks(g, from, w, cols, rows, 3, 1, 1, vnni, to);
    else if (is_dense && kh == 3 && quads == 1 && stride == 2)
        sum_blocks(g, from, w, cols, rows, 3, 1, 2, vnni, to);
    else if (is_dense && kh == 5 && quads == 2 && stride == 1)
        sum_blocks(g, from, w, cols, rows, 5, 2, 1, vnni, to);
    else if (is_dense && kh == 5 && quads == 2 && stride == 2)
        sum_blocks(g, from, w, cols, rows, 5, 2, 2, vnni, to);
    else
        for (int64_t r = 0; r < rows; r++)
            sum_rows(g, from + r * stride * quads * g->columns, w, cols, 1, kh, quads, stride, dilation, vnni,
                     to + r * g->s.ow);
}

VNNI_TARGET static void vnni_tile(const struct conv *g, const quad *from, const struct weights *w,
                                  int64_t cols, int64_t rows, int32_t *to) {
    sum_tile(g, from, w, cols, rows, 1, to);
}

static void wide_tile(const struct conv *g, const quad *from, const struct weights *w, int64_t cols,
                      int64_t rows, int32_t *to) {
    sum_tile(g, from, w, cols, rows, 0, to);
}

/* Passes a tile of pixels to the hook, or stores it. */
static int32_t deliver(const struct conv *g, const struct block *o, int64_t at, int64_t cols, int32_t *tile) {
    if (g->hook)
        return g->hook(g->hook_buf, g->hook_arg, (float *)(void *)tile, TILE_COLUMNS, o->image, o->channel, 1,
                       at, cols);
    memcpy(g->y + o->image * g->s.y_n + o->channel * g->s.y_c + at, tile, (size_t)cols * sizeof *tile);
    return 0;
}

static int32_t run_block(const struct conv *g, const struct block *o, const quad *expanded,
                         const struct weights *w) {
    int32_t tile[TILE_COLUMNS + VL] __attribute__((aligned(64)));
    const int64_t ow = g->s.ow, step = g->s.stride_h * g->quads * g->columns;
    const int64_t most_cols = smaller(ow, TILE_COLUMNS), most_rows = TILE_COLUMNS / most_cols;
    for (int64_t row = o->first; row < o->last; row += most_rows)
        for (int64_t col = 0; col < ow; col += most_cols) {
            const int64_t rows = smaller(o->last - row, most_rows), cols = smaller(ow - col, most_cols);
            const quad *from = expanded + (row - o->first) * step + col;
            (g->vnni && w->are_bytes ? vnni_tile : wide_tile)(g, from, w, cols, rows, tile);
            const int32_t error = deliver(g, o, row * ow + col, rows * cols, tile);
            if (error)
                return error;
        }
    return 0;
}

static int32_t run_units(const struct conv *g, int64_t begin, int64_t end, uint8_t *scratch) {
    const struct byte_depthwise_args *s = &g->s;
    const int64_t pitch = ceildiv(g->columns * s->stride_w + 4 * g->quads * s->dilation_w + 4 * VL, 4) * 4;
    const int64_t rows = smaller(s->oh, s->ow < UNIT_PIXELS ? UNIT_PIXELS / s->ow : 1);
    const int64_t blocks = ceildiv(s->oh, rows), features = s->channels * s->multiplier;
    const int64_t taps = s->kh * g->quads, step = g->quads * g->columns;
    quad *all = (quad *)(void *)scratch, *expanded = all + 2 * taps;
    struct weights w = {.even = all, .odd = all + taps};
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t plane = unit / blocks, first = unit % blocks * rows,
                      last = smaller(s->oh, first + rows);
        const int64_t top = first * s->stride_h - s->pad_top;
        const int64_t count = (last - 1 - first) * s->stride_h + (s->kh - 1) * s->dilation_h + 1;
        const struct block o = {plane / features, plane % features, first, last, top, top + count};
        uint8_t *lines = (uint8_t *)(expanded + count * step);
        if (unit == begin || first == 0)
            read_weights(g, o.channel, &w);
        copy_lines(g, &o, pitch, lines);
        expand(g, &(struct lines){lines, pitch, count, expanded});
        const int32_t error = run_block(g, &o, expanded, &w);
        if (error)
            return error;
    }
    return 0;
}

static int32_t run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                   int vnni) {
    struct conv g = {
        .x = buf[BYTE_DEPTHWISE_X],
        .w = buf[BYTE_DEPTHWISE_W],
        .w_zero = buf[BYTE_DEPTHWISE_W_ZERO],
        .y = buf[BYTE_DEPTHWISE_Y],
        .hook_buf = buf + BYTE_DEPTHWISE_OPERANDS + 1,
        .hook_arg = arg + BYTE_DEPTHWISE_ARGS,
        .vnni = vnni,
    };
    const uint8_t *x_zero = buf[BYTE_DEPTHWISE_X_ZERO];
    memcpy(&g.s, arg, sizeof g.s);
    memcpy(&g.hook, &buf[BYTE_DEPTHWISE_OPERANDS], sizeof g.hook);
    g.quads = ceildiv(g.s.kw, 4);
    g.columns = ceildiv(g.s.ow, VL) * VL;
    g.zero = (uint8_t)((x_zero ? *x_zero : 0) ^ (g.s.x_signed ? 0x80 : 0));
    return begin < end ? run_units(&g, begin, end, scratch) : 0;
}

GW_KERNEL(gw_depthwise_bytes) { return run(buf, arg, begin, end, scratch, has_vnni()); }

GW_KERNEL(gw_depthwise_bytes_wide) { return run(buf, arg, begin, end, scratch, 0); }
