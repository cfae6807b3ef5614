/* im2col: packs windows into panels of NR pixels. The including file defines ARGS (the tag of the struct with
 * the sizes) and ELEMENT (the type of pixels). WHOLE_load and WHOLE_store move a VECTOR of elements,
 * PART_load_n and PART_store_n only some of its lanes. */

#ifndef GW_IM2COL_H
#define GW_IM2COL_H

#include "library/lanes.h"
#include "library/sizes.h"
#include "library/templates.h"

/* A block of the output: tiles [tile0, tile1) of output channels and panels [panel0, panel1) of pixels, in
 * one group of one image. */
struct block {
    int64_t image, group, tile0, tile1, panel0, panel1;
};

/* Planes of an image: the first pixel, and the elements between planes, depths, rows and columns. */
struct image {
    const ELEMENT *x;
    int64_t planes, c, d, h, w;
};

/* Whether some tap of some pixel of y is outside the image. */
static int reads_padding(const struct ARGS *s) {
    const int64_t behind = (s->od - 1) * s->stride_d - s->pad_front + (s->kd - 1) * s->dilation_d;
    const int64_t below = (s->oh - 1) * s->stride_h - s->pad_top + (s->kh - 1) * s->dilation_h;
    const int64_t right = (s->ow - 1) * s->stride_w - s->pad_left + (s->kw - 1) * s->dilation_w;
    return s->pad_front > 0 || s->pad_top > 0 || s->pad_left > 0 || behind >= s->d || below >= s->h ||
           right >= s->w;
}

/* to[c][i] = from[c][i * step], for n pixels of each plane. */
static void copy_runs(const ELEMENT *from, int64_t from_c, int64_t step, int64_t n, int64_t planes,
                      ELEMENT *to, int64_t to_c) {
    if (step == 1 && n == NR) {
        for (; planes > 0; planes--, from += from_c, to += to_c)
            for (int v = 0; v < NR; v += VL)
                GW_JOIN(WHOLE, store)(to + v, GW_JOIN(WHOLE, load)(from + v));
        return;
    }
    if (step == 1) {
        for (; n > VL; n -= VL, from += VL, to += VL)
            for (int64_t c = 0; c < planes; c++)
                GW_JOIN(WHOLE, store)(to + c * to_c, GW_JOIN(WHOLE, load)(from + c * from_c));
        for (int64_t c = 0; c < planes; c++)
            GW_JOIN(PART, store_n)(to + c * to_c, GW_JOIN(PART, load_n)(from + c * from_c, n), n);
        return;
    }
    if (step == 2) {
        for (; n > 0; n -= VL, from += 2 * VL, to += VL) {
            const int64_t now = smaller(n, VL), low = smaller(2 * now - 1, VL), high = 2 * now - 1 - low;
            for (int64_t c = 0; c < planes; c++) {
                const ELEMENT *p = from + c * from_c;
                const VECTOR a = GW_JOIN(PART, load_n)(p, low),
                             b = GW_JOIN(PART, load_n)(p + (high ? VL : 0), high);
                GW_JOIN(PART, store_n)(to + c * to_c, __builtin_shufflevector(a, b, LANES(EVEN)), now);
            }
        }
        return;
    }
    for (; planes > 0; planes--, from += from_c, to += to_c)
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * step];
}

/* Copies all taps of a row of windows that do not overlap: to[c][tap][i] = from[c][i * step + tap]. */
GW_INLINE void copy_windows(const ELEMENT *from, int64_t from_c, int64_t step, int64_t n, int64_t taps,
                            int64_t planes, ELEMENT *to, int64_t to_c) {
    for (; planes > 0; planes--, from += from_c, to += to_c)
        for (int64_t i = 0; i < n; i++)
            for (int64_t tap = 0; tap < taps; tap++)
                to[tap * NR + i] = from[i * step + tap];
}

/* Packs the windows of cols pixels of y, from pixel `at` on, to the panel to[plane][tap][NR]. */
GW_INLINE void gather_runs(const struct ARGS *s, struct image m, int64_t at, int64_t cols, ELEMENT *to) {
    const int64_t taps = s->kd * s->kh * s->kw;
    const int dense =
        s->stride_w > 2 && s->dilation_w == 1 && m.w == 1; /* the taps of a window row are contiguous in x */
    for (int64_t col = 0, n; col < cols; col += n) {
        const int64_t row = quotient(at + col, s->ow), ox = at + col - row * s->ow;
        const int64_t oz = quotient(row, s->oh), oy = row - oz * s->oh;
        int64_t z = oz * s->stride_d - s->pad_front, tap = 0;
        n = smaller(s->ow - ox, cols - col);
        for (int64_t d = 0; d < s->kd; d++, z += s->dilation_d) {
            int64_t y = oy * s->stride_h - s->pad_top;
            for (int64_t i = 0; i < s->kh; i++, y += s->dilation_h) {
                int64_t x0 = ox * s->stride_w - s->pad_left;
                if (dense && z >= 0 && z < s->d && y >= 0 && y < s->h && x0 >= 0 &&
                    x0 + (n - 1) * s->stride_w + s->kw <= s->w) {
                    copy_windows(m.x + z * m.d + y * m.h + x0, m.c, s->stride_w, n, s->kw, m.planes,
                                 to + tap * NR + col, taps * NR);
                    tap += s->kw;
                    continue;
                }
                for (int64_t j = 0; j < s->kw; j++, tap++, x0 += s->dilation_w) {
                    if (z < 0 || z >= s->d || y < 0 || y >= s->h || x0 >= s->w)
                        continue;
                    /* for pixels first..last of the run, this tap is inside the row */
                    const int64_t first = x0 < 0 ? ceildiv(-x0, s->stride_w) : 0;
                    const int64_t last = smaller(n, ceildiv(s->w - x0, s->stride_w));
                    if (first < last)
                        copy_runs(m.x + z * m.d + y * m.h + (x0 + first * s->stride_w) * m.w, m.c,
                                  s->stride_w * m.w, last - first, m.planes, to + tap * NR + col + first,
                                  taps * NR);
                }
            }
        }
    }
}

#endif
