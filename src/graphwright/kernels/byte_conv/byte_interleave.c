/* Interleaves channels of bytes: see byte_interleave.py. */

#include "byte_conv/byte_interleave.gen.h"

#include "byte_conv/byte_panels.h"
#include "library/byte_dots.h"
#include "library/lanes.h"

#define SAME(i) (i)
#define MOD_4(i) (i) % 4
#define QUARTERS(i) (i) % 4 * 4 + (i) / 4

/* The bytes p[r * pitch][i] of lane i, for `rows` rows r; that of the first row is the lowest. */
GW_INLINE vi interleaved(const uint8_t *p, int64_t pitch, int64_t rows) {
#if VL == 16
    if (rows == 4) { /* row by row, then four pixels of each row together, then pixel by pixel */
        typedef uint32_t v4 __attribute__((vector_size(16)));
        v4 row[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++)
            memcpy(&row[r], p + r * pitch, sizeof row[r]);
        const vq x = __builtin_shufflevector(__builtin_shufflevector(row[0], row[1], 0, 1, 2, 3, 4, 5, 6, 7),
                                             __builtin_shufflevector(row[2], row[3], 0, 1, 2, 3, 4, 5, 6, 7),
                                             LANES(SAME));
        const vi order = (vi)__builtin_shufflevector((v4){0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703},
                                                     (v4){0}, LANES(MOD_4));
        return bytes_in_order((vi)__builtin_shufflevector(x, x, LANES(QUARTERS)), order);
    }
#endif
    vq x = spread(p);
    for (int64_t r = 1; r < rows; r++)
        x |= spread(p + r * pitch) << 8 * (int32_t)r;
    return (vi)x;
}

/* to[i] = the bytes at[0..rows)[i], each ^ flip; the last vectors may overlap. */
GW_INLINE void interleave(const uint8_t *at, int64_t pitch, int64_t rows, int64_t n, uint8_t flip, quad *to) {
    const vi flips = vi_set1((int32_t)(0x01010101u * flip));
    int64_t i = 0;
    for (; n >= VL && i < n; i += VL) {
        const int64_t first = smaller(i, n - VL);
        vi_store((int32_t *)(void *)(to + first), interleaved(at + first, pitch, rows) ^ flips);
    }
    for (; i < n; i++) {
        quad x = 0;
        for (int64_t r = 0; r < rows; r++)
            x |= (quad)at[r * pitch + i] << 8 * r;
        to[i] = x ^ 0x01010101u * flip;
    }
}

/* Interleaves n pixels of up to four channels. */
GW_INLINE void interleave_pixels(const struct interleave_args *s, const uint8_t *x, int64_t rows, int64_t n,
                                 quad *to) {
    const uint8_t flip = s->x_signed ? 0x80 : 0;
    if (rows >= 4)
        interleave(x, s->pixels, 4, n, flip, to);
    else
        interleave(x, s->pixels, rows, n, flip, to);
}

GW_KERNEL(gw_interleave_bytes) {
    struct interleave_args s;
    (void)scratch;
    memcpy(&s, arg, sizeof s);
    const int64_t planes = ceildiv(s.cin, 4), blocks = ceildiv(s.pixels, PIXELS);
    for (; begin < end; begin++) {
        const int64_t pixel = begin % blocks * PIXELS, plane = begin / blocks;
        const int64_t channel = plane / planes * s.cin + plane % planes * 4;
        const uint8_t *x = (const uint8_t *)buf[INTERLEAVE_X] + channel * s.pixels + pixel;
        quad *to = (quad *)buf[INTERLEAVE_QUADS] + plane * s.pixels + pixel;
        interleave_pixels(&s, x, s.cin - plane % planes * 4, smaller(PIXELS, s.pixels - pixel), to);
    }
    return 0;
}

GW_KERNEL(gw_interleave_panels) {
    struct interleave_args s;
    (void)scratch;
    memcpy(&s, arg, sizeof s);
    const struct panels panels = panels_of(s.pixels);
    const int64_t planes = ceildiv(s.cin, 4);
    for (; begin < end; begin++) {
        const int64_t image = begin / panels.count, p = begin % panels.count;
        const struct columns c = columns_of(&panels, p);
        const uint8_t *x = (const uint8_t *)buf[INTERLEAVE_X] + image * s.cin * s.pixels + c.at;
        quad *to = (quad *)buf[INTERLEAVE_QUADS] + (image * (panels.count + 1) + p) * planes * NR;
        for (int64_t plane = 0; plane < planes; plane++, x += 4 * s.pixels, to += NR) {
            interleave_pixels(&s, x, s.cin - plane * 4, c.cols, to);
            interleave_pixels(&s, x + c.cols, s.cin - plane * 4, c.rest, to + planes * NR);
        }
    }
    return 0;
}
