/* Checks of indices of the types INT and UINT, which have BITS bits. Included by indices.c, for 32 and 64. */

#define OF(name) GW_JOIN(name, BITS)

typedef INT OF(some) __attribute__((vector_size(sizeof(vi))));
typedef INT OF(some_any) __attribute__((vector_size(sizeof(vi)), aligned(BITS / 8), may_alias));

/* Whether any of `count` indices is outside [-sizes[k], sizes[k]), or one of the lengths outside [0,
 * sizes[k]]; k is the position modulo depth. If a size exceeds the type of the indices, all indices are
 * inside. */
static int OF(outside)(const INT *x, int64_t count, const int64_t *sizes, int64_t depth, int64_t lengths) {
    enum { L = sizeof(vi) * 8 / BITS };
    const int64_t most = (int64_t)(~(UINT)0 >> 1);
    OF(some) low = {0}, high = {0}, found = {0};
    int64_t i = 0;
    for (int k = 0; k < L; k++) {
        const int64_t size = sizes[k % depth];
        low[k] = (INT)(lengths ? 0 : size > most ? -most - 1 : -size);
        high[k] = (INT)(size > most ? most : size - 1 + lengths);
    }
    for (; L % depth == 0 && i + L <= count; i += L) {
        const OF(some) now = *(const OF(some_any) *)(x + i);
        found |= (now < low) | (now > high);
    }
    int any = 0;
    for (int k = 0; k < L; k++)
        any |= found[k] != 0;
    for (int64_t k = i % depth; i < count; i++, k = k + 1 == depth ? 0 : k + 1)
        any |= x[i] < (lengths ? 0 : -sizes[k]) || x[i] >= sizes[k] + lengths;
    return any;
}

#undef OF
