/* Transposition of elements of SIZE bytes. Included by transposition.h, once for each size. */

#define OF(name) GW_JOIN(name, SIZE)
#if VL == 16
#define BAND_WIDE OF(band_64)
#else
#define BAND_WIDE OF(band_32)
#endif

/* dst is contiguous along columns, src along rows. Works band by band; the last band overlaps the one before.
 */
static void OF(transpose)(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                          int64_t cols) {
    enum { T = 16 / SIZE, WIDE = sizeof(vi) / SIZE };
    const int64_t down = d[0], across = s[1];
    if (rows < T || cols < T) {
        OF(rows)(dst, d, src, s, rows, cols);
    } else if (cols < WIDE) {
        for (int64_t j = 0; j < cols; j += T) {
            const int64_t at = j < cols - T ? j : cols - T;
            OF(band_16)(dst + at * SIZE, down, src + at * across, across, rows, 0);
        }
    } else {
        for (int64_t j = 0; j < cols; j += WIDE) {
            const int64_t at = j < cols - WIDE ? j : cols - WIDE;
            BAND_WIDE(dst + at * SIZE, down, src + at * across, across, rows, 0);
        }
    }
}
/* Whole lines of dst bypass the caches. */
static void OF(streamed)(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                         int64_t cols) {
    enum { T = 16 / SIZE, LINE = 64 / SIZE };
    const int64_t down = d[0], across = s[1];
    int64_t whole = rows < T || ((uintptr_t)dst | (uintptr_t)down) % sizeof(vi) ? 0 : cols - cols % LINE;
    for (int64_t j = 0; j < whole; j += LINE)
        OF(band_64)(dst + j * SIZE, down, src + j * across, across, rows, 1);
    if (whole < cols)
        OF(transpose)(dst + whole * SIZE, d, src + whole * across, s, rows, cols - whole);
}

#undef BAND_WIDE
#undef OF
