/* Elements of the type UINT, which has BITS bits. Included by non_zero.c, once for each size. */

#define OF(name) GW_JOIN(name, BITS)

/* One byte of 0 or 1 for each element of a group. */
GW_INLINE void OF(flags)(const void *from, uint64_t mask, uint8_t *flags) {
    UINT x[GROUP];
    memcpy(x, from, sizeof x);
    for (int i = 0; i < GROUP; i++)
        flags[i] = (x[i] & (UINT)mask) != 0;
}

static int64_t OF(count)(const UINT *x, int64_t n, uint64_t mask) {
    int64_t found = 0;
    for (; n >= GROUP; n -= GROUP, x += GROUP) {
        uint8_t flags[GROUP], sum = 0;
        OF(flags)(x, mask, flags);
        for (int i = 0; i < GROUP; i++)
            sum += flags[i];
        found += sum;
    }
    for (int64_t i = 0; i < n; i++)
        found += (x[i] & (UINT)mask) != 0;
    return found;
}

/* Searches elements of one row, from the current column on. */
static void OF(write)(const UINT *x, int64_t n, uint64_t mask, target *t) {
    int64_t *columns = t->indices + (t->rank - 1) * t->total;
    const int64_t first = t->at, column = t->index[t->rank - 1];
    int64_t at = first, i = 0;
    for (; n - i >= GROUP; i += GROUP) {
        uint8_t flags[GROUP];
        OF(flags)(x + i, mask, flags);
        for (int k = 0; k < GROUP; k += 8) {
            uint64_t eight;
            memcpy(&eight, flags + k, 8);
            for (; eight; eight &= eight - 1)
                columns[at++] = column + i + k + (__builtin_ctzll(eight) >> 3);
        }
    }
    for (; i < n; i++)
        if (x[i] & (UINT)mask)
            columns[at++] = column + i;
    for (int64_t axis = 0; axis < t->rank - 1; axis++)
        for (int64_t k = first; k < at; k++)
            t->indices[axis * t->total + k] = t->index[axis];
    t->at = at;
}

#undef OF
