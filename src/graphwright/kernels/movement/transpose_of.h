/* Transposition of elements of SIZE bytes. Included by transposition.h, once for each size. */

#define OF(name) GW_JOIN(name, SIZE)
#if VL == 16
#define BAND_WIDE OF(band_64)
#else
#define BAND_WIDE OF(band_32)
#endif

/* Fewer rows than a tile has, whose columns are dense in src: tiles also read columns that follow. The last
 * line is read from a copy, since nothing may follow it. */
static void OF(few_rows)(char *dst, const int64_t *d, const char *src, int64_t rows, int64_t cols) {
    enum { T = 16 / SIZE, LINE = 64 / SIZE };
    const int64_t across = rows * SIZE;
    char last[LINE * 16] = {0}, line[T * 64];
    for (int64_t j = 0; j < cols; j += LINE) {
        const int64_t left = cols - j, n = left < LINE ? left : LINE;
        const char *from = src + j * across;
        if (left < LINE + T)
            from = memcpy(last, from, (size_t)(n * across));
        OF(band_64)(line, 64, from, across, T, 0);
        for (int64_t i = 0; i < rows; i++)
            if (n == LINE)
                memcpy(dst + i * d[0] + j * SIZE, line + i * 64, 64);
            else
                memcpy(dst + i * d[0] + j * SIZE, line + i * 64, (size_t)(n * SIZE));
    }
}
/* Fewer columns than a tile has, whose rows are dense in dst: whole tiles are written to a buffer, each row
 * over the end of the one before. */
static void OF(few_columns)(char *dst, const char *src, int64_t across, int64_t rows, int64_t cols) {
    enum { T = 16 / SIZE, MANY_ROWS = 256 / SIZE };
    const int64_t down = cols * SIZE;
    char columns[T * 256] = {0}, part[MANY_ROWS * 16];
    for (int64_t i = 0; i < rows; i += MANY_ROWS) {
        const int64_t n = rows - i < MANY_ROWS ? rows - i : MANY_ROWS;
        for (int64_t j = 0; j < cols; j++)
            memcpy(columns + j * 256, src + j * across + i * SIZE, (size_t)(n * SIZE));
        OF(band_16)(part, down, columns, 256, n < T ? T : n, 0);
        memcpy(dst + i * down, part, (size_t)(n * down));
    }
}
/* dst is contiguous along columns, src along rows. Works band by band; the last band overlaps the one before.
 */
static void OF(transpose)(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                          int64_t cols) {
    enum { T = 16 / SIZE, WIDE = sizeof(vi) / SIZE };
    const int64_t down = d[0], across = s[1];
    if (rows < T && cols >= T && across == rows * SIZE) {
        OF(few_rows)(dst, d, src, rows, cols);
    } else if (cols < T && rows >= T && down == cols * SIZE) {
        OF(few_columns)(dst, src, across, rows, cols);
    } else if (rows < T || cols < T) {
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
