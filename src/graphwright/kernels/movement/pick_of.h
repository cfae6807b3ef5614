/* Gathers single elements of SIZE bytes. Included by gather.c, once for each size. */

#define OF(name) GW_JOIN(name, SIZE)

/* dst[k] = src[index k] for k in [first, last); returns false if an index is out of range. */
static int OF(pick)(char *dst, int64_t d, const char *src, int64_t s, const void *indices, int64_t index_size,
                    int64_t axis, int64_t first, int64_t last) {
    const int32_t *narrow = indices;
    const int64_t *wide = indices;
    for (int64_t k = first; k < last; k++) {
        int64_t index = index_size == 4 ? narrow[k] : wide[k];
        index += index < 0 ? axis : 0;
        if ((uint64_t)index >= (uint64_t)axis)
            return 0;
        *(OF(e) *)(dst + k * d) = *(const OF(e) *)(src + index * s);
    }
    return 1;
}

#undef OF
