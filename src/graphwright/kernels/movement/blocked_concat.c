/* Concatenation of channels in blocked layouts: see blocked_concat.py. */

#include "movement/blocked_concat.gen.h"

#include "library/sizes.h"

/* Lanes of a block of y: first_n from one block of x, then second_n from the next one. */
struct lanes {
    const float *first, *second;
    float *y;
    int64_t first_n, second_n;
};

static void copy_pixels(const struct lanes *l, int64_t x, int64_t y, int64_t n) {
    const float *first = l->first + x, *second = l->second + x;
    float *to = l->y + y;
    const int64_t n1 = l->first_n, n2 = l->second_n;
    if (n1 == VL) {
        for (int64_t i = 0; i < n * VL; i += VL)
            vf_store(to + i, vf_load(first + i));
        return;
    }
    if (n2 == 0) {
        for (int64_t i = 0; i < n * VL; i += VL)
            vf_store_n(to + i, vf_load_n(first + i, n1), n1);
        return;
    }
    for (int64_t i = 0; i < n * VL; i += VL) {
        vf_store_n(to + i, vf_load_n(first + i, n1), n1);
        vf_store_n(to + i + n1, vf_load_n(second + i, n2), n2);
    }
}

GW_KERNEL(gw_copy_channels_blocked_f32) {
    (void)scratch;
    const float *const x = buf[COPY_CHANNELS_X];
    float *const y = buf[COPY_CHANNELS_Y];
    struct copy_channels_args s;
    memcpy(&s, arg, sizeof s);
    if (s.x_h == s.w * VL && s.y_h == s.w * VL) {
        s.w *= s.h; /* all pixels form one row */
        s.h = 1;
    }
    const int64_t first_block = s.y_first / VL, blocks = ceildiv(s.y_first + s.channels, VL) - first_block;
    const int64_t pixels = s.h * s.w, chunks = ceildiv(pixels, CHUNK);
    for (; begin < end; begin++) {
        const int64_t plane = quotient(begin, chunks), chunk = begin - plane * chunks;
        const int64_t image = quotient(plane, blocks), block = first_block + plane - image * blocks;
        const int64_t from = block * VL > s.y_first ? block * VL : s.y_first;
        const int64_t count = smaller((block + 1) * VL, s.y_first + s.channels) - from;
        const int64_t channel = from - s.y_first + s.x_first, lane = channel % VL;
        const float *block_x = x + image * s.x_n + channel / VL * s.x_cb;
        const struct lanes l = {
            .first = block_x + lane,
            .second = block_x + s.x_cb,
            .y = y + image * s.y_n + block * s.y_cb + (from - block * VL),
            .first_n = smaller(count, VL - lane),
            .second_n = count - smaller(count, VL - lane),
        };
        const int64_t last = part_begin(pixels, chunk + 1, chunks);
        for (int64_t at = part_begin(pixels, chunk, chunks), n; at < last; at += n) {
            const int64_t row = quotient(at, s.w), column = at - row * s.w;
            n = smaller(s.w - column, last - at);
            copy_pixels(&l, row * s.x_h + column * VL, row * s.y_h + column * VL, n);
        }
    }
    return 0;
}
