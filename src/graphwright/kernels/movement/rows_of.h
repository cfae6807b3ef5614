/* Row copies of elements of SIZE bytes. Included by rows.h, once for each size. */

#define OF(name) GW_JOIN(name, SIZE)

#if SIZE == 16

GW_INLINE void OF(fill)(char *to, OF(e) value, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        ((OF(e) *)to)[j] = value;
}

/* Smaller elements have loops for some distances and numbers of rows: see strided.py. */
GW_INLINE int OF(strided)(char *to, const char *from, int64_t s, int64_t n) {
    return (void)to, (void)from, (void)s, (void)n, 0;
}
GW_INLINE int OF(woven)(char *to, const char *from, int64_t s, int64_t rows, int64_t n) {
    return (void)to, (void)from, (void)s, (void)rows, (void)n, 0;
}
#else

/* Whole vectors; the last one ends at the end of the run and may overlap the one before. */
GW_INLINE void OF(fill)(char *to, OF(e) value, int64_t n) {
    enum { L = sizeof(vi) / SIZE };
    OF(v) all = (OF(v)){0} + value;
    int64_t j = 0;
    for (; j + L <= n; j += L)
        *(OF(v_any) *)(to + j * SIZE) = all;
    if (j < n && n >= L)
        *(OF(v_any) *)(to + (n - L) * SIZE) = all;
    else
        for (; j < n; j++)
            ((OF(e) *)to)[j] = value;
}
#endif

/* Copies row by row, for any strides. */
static void OF(rows)(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                     int64_t cols) {
    const int64_t bytes = cols * SIZE;
    if (d[1] == SIZE && s[1] == SIZE) {
        if (rows > 1 && s[0] == 0 && d[0] == bytes) {
            memcpy(dst, src, (size_t)bytes);
            repeat_run(dst, bytes, rows);
        } else if (bytes >= 32)
            for (int64_t i = 0; i < rows; i++)
                move_run(dst + i * d[0], src + i * s[0], bytes);
        else
            for (int64_t i = 0; i < rows; i++)
                move_short(dst + i * d[0], src + i * s[0], bytes);
        return;
    }
    if (d[0] == SIZE && d[1] == rows * SIZE && s[1] == SIZE && OF(woven)(dst, src, s[0], rows, cols))
        return;
    for (int64_t i = 0; i < rows; i++) {
        char *to = dst + i * d[0];
        const char *from = src + i * s[0];
        if (d[1] == SIZE && s[1] == 0) {
            OF(fill)(to, *(const OF(e) *)from, cols);
        } else if (d[1] == SIZE && OF(strided)(to, from, s[1], cols)) {
            continue;
        } else if (d[1] == SIZE) {
            for (int64_t j = 0; j < cols; j++)
                ((OF(e) *)to)[j] = *(const OF(e) *)(from + j * s[1]);
        } else {
            for (int64_t j = 0; j < cols; j++)
                *(OF(e) *)(to + j * d[1]) = *(const OF(e) *)(from + j * s[1]);
        }
    }
}

#undef OF
