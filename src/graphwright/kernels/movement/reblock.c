/* Conversions between row-major and channel-blocked layouts: see reblock.py. */

#include "movement/reblock.gen.h"

#include "library/unblock_row.h"

/* n pixels of a row of 1 <= channels <= VL channels. */
typedef void (*row_fn)(float *plain, int64_t plain_c, float *blocked, int64_t channels, int64_t n);

/* blocked[i][c] = plain[c][i] for n pixels of 1 <= channels <= VL channels; other lanes become 0. */
static void block_row(float *plain, int64_t plain_c, float *blocked, int64_t channels, int64_t n) {
    if (n < VL) {
        if (n == 1 && plain_c == 1)
            vf_store(blocked, vf_load_n(plain, channels));
        else
            transpose(plain, plain_c, channels, n, blocked, VL);
        return;
    }
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t at = smaller(i, n - VL);
        transpose(plain + at, plain_c, channels, VL, blocked + at * VL, VL);
    }
}

/* Images of one pixel: a unit is so short that computing its position would take longer than copying it. */
GW_INLINE void pixel(float *plain, float *blocked, const struct reblock_args *s, int64_t begin, int64_t end,
                     row_fn row) {
    const int64_t blocks = ceildiv(s->channels, VL);
    int64_t image = quotient(begin, blocks), block = begin - image * blocks;
    for (; begin < end; begin++) {
        row(plain + image * s->plain_n + block * VL * s->plain_c, s->plain_c,
            blocked + image * s->blocked_n + block * s->blocked_cb, smaller(s->channels - block * VL, VL), 1);
        if (++block == blocks) {
            block = 0;
            image++;
        }
    }
}

GW_INLINE void run(float *plain, float *blocked, const int64_t *arg, int64_t begin, int64_t end, row_fn row) {
    struct reblock_args s;
    memcpy(&s, arg, sizeof s);
    if (s.plain_h == s.w && s.blocked_h == s.w * VL) {
        s.w *= s.h; /* all pixels form one row */
        s.h = 1;
    }
    const int64_t pixels = s.h * s.w, chunks = ceildiv(pixels, CHUNK), blocks = ceildiv(s.channels, VL);
    if (pixels == 1) {
        pixel(plain, blocked, &s, begin, end, row);
        return;
    }
    for (; begin < end; begin++) {
        const int64_t plane = quotient(begin, chunks), chunk = begin - plane * chunks;
        const int64_t image = quotient(plane, blocks), block = plane - image * blocks;
        const int64_t channels = smaller(s.channels - block * VL, VL),
                      last = part_begin(pixels, chunk + 1, chunks);
        float *const from = plain + image * s.plain_n + block * VL * s.plain_c;
        float *const to = blocked + image * s.blocked_n + block * s.blocked_cb;
        for (int64_t at = part_begin(pixels, chunk, chunks), n; at < last; at += n) {
            const int64_t y = quotient(at, s.w), x = at - y * s.w;
            n = smaller(s.w - x, last - at);
            row(from + y * s.plain_h + x, s.plain_c, to + y * s.blocked_h + x * VL, channels, n);
        }
    }
}

GW_KERNEL(gw_block_f32) {
    (void)scratch;
    run(buf[REBLOCK_X], buf[REBLOCK_Y], arg, begin, end, block_row);
    return 0;
}

GW_KERNEL(gw_unblock_f32) {
    (void)scratch;
    run(buf[REBLOCK_Y], buf[REBLOCK_X], arg, begin, end, unblock_row);
    return 0;
}
