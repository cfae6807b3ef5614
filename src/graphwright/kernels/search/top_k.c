/* TopK: see top_k.py. */

#include "library/sizes.h"

#include "search/top_k.gen.h"

typedef struct {
    uint64_t key;
    int64_t index;
} entry;

GW_INLINE uint64_t bits_of(const char *p, int64_t size) {
    switch (size) {
    case 1: return *(const uint8_t *)p;
    case 2: return *(const uint16_t *)p;
    case 4: return *(const uint32_t *)p;
    default: return *(const uint64_t *)p;
    }
}

/* The bytes of an element. Its code is this number too, except that of bf16, which is 3. */
GW_INLINE int64_t bytes_of(int64_t code) { return code == 3 ? 2 : code; }

/* The bits of infinity as a float of a code. */
GW_INLINE uint64_t infinity_of(int64_t code) {
    switch (code) {
    case 2: return 0x7c00;
    case 3: return 0x7f80;
    case 4: return 0x7f800000;
    default: return 0x7ff0000000000000;
    }
}

/* A key with the order of the elements, largest first. */
GW_INLINE uint64_t key_of(uint64_t bits, int64_t kind, int64_t code, int64_t largest) {
    const int64_t width = 8 * bytes_of(code);
    const uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1);
    uint64_t key = bits;
    if (kind == SIGNED) {
        key = bits ^ sign;
    } else if (kind == FLOAT) {
        if ((bits & ~sign) > infinity_of(code))
            key = all;
        else if ((bits & ~sign) == 0)
            key = sign;
        else
            key = bits & sign ? ~bits & all : bits | sign;
    }
    return largest ? key : ~key & all;
}

/* The current row and its kept entries, in the order of the row: `count` of at most `most`. */
typedef struct {
    const char *x;
    int64_t length, step, k, bytes, largest;
    entry *kept;
    int64_t count, most;
    uint64_t above; /* once is_cut, later entries need a larger key */
    int is_cut;
} ranking;

/* The k-th largest key, and how many entries equal to it are among the first k. */
static uint64_t find_kth(const ranking *r, int64_t *equal) {
    uint64_t known = 0, digits = 0;
    int64_t left = r->k;
    for (int64_t shift = 8 * r->bytes - 8; shift >= 0; shift -= 8) {
        int64_t counts[256] = {0}, digit = 255;
        for (int64_t i = 0; i < r->count; i++)
            counts[r->kept[i].key >> shift & 255] += (r->kept[i].key & known) == digits;
        for (; counts[digit] < left; digit--)
            left -= counts[digit];
        digits |= (uint64_t)digit << shift;
        known |= (uint64_t)255 << shift;
    }
    *equal = left;
    return digits;
}

/* Keeps the k best entries. */
static void keep_best(ranking *r) {
    int64_t equal, count = 0;
    const uint64_t kth = find_kth(r, &equal);
    for (int64_t i = 0; i < r->count; i++) {
        const entry e = r->kept[i];
        const int is_kth = e.key == kth, stays = e.key > kth || (is_kth && equal > 0);
        equal -= is_kth;
        r->kept[count] = e;
        count += stays;
    }
    r->count = count;
    r->above = kth;
    r->is_cut = 1;
}

/* Few entries are kept sorted in the order of the result. */
GW_INLINE void insert(ranking *r, uint64_t key, int64_t index) {
    int64_t at = r->count < r->k ? r->count++ : r->k - 1;
    for (; at > 0 && r->kept[at - 1].key < key; at--)
        r->kept[at] = r->kept[at - 1];
    r->kept[at] = (entry){key, index};
    r->is_cut = r->count == r->k;
    if (r->is_cut)
        r->above = r->kept[r->k - 1].key;
}

GW_INLINE void keep(ranking *r, uint64_t key, int64_t index) {
    enum { FEW = 16 };
    if (r->is_cut && key <= r->above)
        return; /* the threshold rose since the caller compared */
    if (r->k <= FEW) {
        insert(r, key, index);
        return;
    }
    r->kept[r->count++] = (entry){key, index};
    if (r->count == r->most && r->k < r->count)
        keep_best(r);
}

GW_INLINE void scan_any(ranking *r, int64_t kind, int64_t code) {
    const int64_t size = bytes_of(code);
    for (int64_t i = 0; i < r->length; i++) {
        const uint64_t key = key_of(bits_of(r->x + i * r->step, size), kind, code, r->largest);
        if (!r->is_cut || key > r->above)
            keep(r, key, i);
    }
}

typedef uint32_t vu __attribute__((vector_size(sizeof(vi))));
typedef uint32_t vu_any __attribute__((vector_size(sizeof(vi)), aligned(4), may_alias));

/* The lanes of a mask as bits. */
GW_INLINE uint32_t lanes_of(vi mask) {
    uint32_t lanes;
#if VL == 16
    __asm__("vptestmd %1, %1, %%k1\n\tkmovw %%k1, %0" : "=r"(lanes) : "v"(mask) : "k1");
#else
    __asm__("vmovmskps %1, %0" : "=r"(lanes) : "x"(mask));
#endif
    return lanes;
}

typedef uint16_t vu16 __attribute__((vector_size(sizeof(vi) / 2), aligned(2), may_alias));
typedef uint8_t vu8 __attribute__((vector_size(sizeof(vi) / 4), aligned(1), may_alias));

/* The bits of a vector of dense elements of at most 4 bytes, each in a lane of 4 bytes. */
GW_INLINE vu load_dense(const char *p, int64_t size) {
    switch (size) {
    case 1: return __builtin_convertvector(*(const vu8 *)p, vu);
    case 2: return __builtin_convertvector(*(const vu16 *)p, vu);
    default: return *(const vu_any *)p;
    }
}

/* Keys of a vector of elements, as in key_of. */
GW_INLINE vu keys_of(vu bits, int64_t kind, int64_t code, int64_t largest) {
    const int64_t width = 8 * bytes_of(code);
    const uint32_t sign = (uint32_t)1 << (width - 1), all = sign | (sign - 1);
    vu keys = kind == UNSIGNED ? bits : bits ^ sign;
    if (kind == FLOAT) {
        const vu size = bits & ~sign, nan = (vu)(size > (uint32_t)infinity_of(code)), zero = (vu)(size == 0);
        keys = (bits ^ ((vu)((vi)(bits << (32 - width)) >> 31) | sign)) | nan;
        keys = ((keys & ~zero) | (sign & zero)) & all;
    }
    return largest ? keys : ~keys & all;
}

GW_INLINE void scan_dense(ranking *r, int64_t kind, int64_t code) {
    const int64_t size = bytes_of(code);
    int64_t i = 0;
    for (; i + VL <= r->length; i += VL) {
        const vu keys = keys_of(load_dense(r->x + size * i, size), kind, code, r->largest);
        const vu above = (vu){0} + (uint32_t)r->above;
        uint32_t wanted = r->is_cut ? lanes_of((vi)(keys > above)) : ((uint32_t)1 << VL) - 1;
        if (__builtin_expect(wanted == 0, 1))
            continue;
        uint32_t lane[VL];
        memcpy(lane, &keys, sizeof keys);
        for (; wanted; wanted &= wanted - 1) {
            const int64_t at = __builtin_ctz(wanted);
            keep(r, lane[at], i + at);
        }
    }
    for (; i < r->length; i++) {
        const uint64_t key = key_of(bits_of(r->x + size * i, size), kind, code, r->largest);
        if (!r->is_cut || key > r->above)
            keep(r, key, i);
    }
}

/* Scans a row of elements of one kind and code, which are constants here. */
GW_INLINE void scan_of(ranking *r, int64_t kind, int64_t code) {
    if (code < 8 && r->step == bytes_of(code))
        scan_dense(r, kind, code);
    else
        scan_any(r, kind, code);
}

static void scan(ranking *r, int64_t kind, int64_t code) {
#define CASE(kind, code)                                                                                     \
    case 4 * code + kind: scan_of(r, kind, code); break;
    switch (4 * code + kind) {
        CASE(UNSIGNED, 1)
        CASE(UNSIGNED, 2)
        CASE(UNSIGNED, 4)
        CASE(UNSIGNED, 8)
        CASE(SIGNED, 1)
        CASE(SIGNED, 2)
        CASE(SIGNED, 4)
        CASE(SIGNED, 8)
        CASE(FLOAT, 2)
        CASE(FLOAT, 3)
        CASE(FLOAT, 4)
        CASE(FLOAT, 8)
    }
#undef CASE
}

/* Stable radix sort, largest key first, with a second buffer `room`. Returns the buffer that holds the
 * result. */
static entry *sort(entry *from, entry *room, int64_t count, int64_t bytes) {
    enum { FEW = 48 };
    for (int64_t i = 1; count <= FEW && i < count; i++) {
        const entry moved = from[i];
        int64_t at = i;
        for (; at > 0 && from[at - 1].key < moved.key; at--)
            from[at] = from[at - 1];
        from[at] = moved;
    }
    if (count <= FEW)
        return from;
    for (int64_t shift = 0; shift < 8 * bytes; shift += 8) {
        int64_t counts[256] = {0}, place = 0;
        for (int64_t i = 0; i < count; i++)
            counts[from[i].key >> shift & 255]++;
        if (counts[from[0].key >> shift & 255] == count)
            continue; /* all digits are equal */
        for (int64_t digit = 255; digit >= 0; digit--) {
            const int64_t here = counts[digit];
            counts[digit] = place;
            place += here;
        }
        for (int64_t i = 0; i < count; i++)
            room[counts[from[i].key >> shift & 255]++] = from[i];
        entry *other = from;
        from = room;
        room = other;
    }
    return from;
}

/* Writes the k best elements of a row of elements `step` bytes apart to results `inner` elements apart. */
static void rank_row(const struct top_k_args *a, const char *x, int64_t step, char *values, int64_t *indices,
                     void *scratch) {
    const int64_t size = bytes_of(a->code), k = a->k, most = k + (k > SPARE ? k : SPARE);
    ranking r = {.x = x,
                 .length = a->count,
                 .step = step,
                 .k = k,
                 .bytes = size,
                 .largest = a->largest,
                 .kept = scratch,
                 .most = most};
    scan(&r, a->kind, a->code);
    if (r.count > k)
        keep_best(&r);
    const entry *best = sort(r.kept, r.kept + most, r.count, size);
    for (int64_t i = 0; i < k && i < r.count; i++) {
        indices[i * a->inner] = best[i].index;
        memcpy(values + i * a->inner * size, x + best[i].index * step, (size_t)size);
    }
}

/* Ranks n short rows at once, one in each lane, of elements of at most 4 bytes. Row c begins c * row_step
 * elements from x, and its elements are `step` apart. Each of k passes moves the best of the rest to the
 * front; equal keys keep their order.
 */
static void rank_lanes(const struct top_k_args *a, const char *x, int64_t n, int64_t row_step, int64_t step,
                       char *values, int64_t *indices, int64_t result_step, void *scratch) {
    const int64_t size = bytes_of(a->code), count = a->count, k = a->k;
    vu *const keys = scratch;
    vi *const at = (vi *)(keys + count);
    memset(keys, 0, (size_t)count * sizeof *keys);
#define LOAD(type)                                                                                           \
    for (int64_t i = 0; i < count; i++)                                                                      \
        for (int64_t c = 0; c < n; c++)                                                                      \
            ((uint32_t *)(keys + i))[c] = ((const type *)x)[c * row_step + i * step];                        \
    break;
    switch (size) {
    case 1: LOAD(uint8_t)
    case 2: LOAD(uint16_t)
    default: LOAD(uint32_t)
    }
#undef LOAD
    for (int64_t i = 0; i < count; i++) {
        keys[i] = keys_of(keys[i], a->kind, a->code, a->largest);
        at[i] = vi_set1((int32_t)i);
    }
    for (int64_t done = 0; done < k; done++) {
        vi best = (vi)keys[count - 1], best_at = at[count - 1];
        for (int64_t i = count - 1; i > done; i--) {
            const vi key = (vi)keys[i - 1], index = at[i - 1], rises = (vi)((vu)best > (vu)key);
            keys[i] = (vu)vi_select(rises, key, best);
            at[i] = vi_select(rises, index, best_at);
            best = vi_select(rises, best, key);
            best_at = vi_select(rises, best_at, index);
        }
        at[done] = best_at;
    }
    for (int64_t i = 0; i < k; i++)
        for (int64_t c = 0; c < n; c++) {
            const int64_t index = ((const int32_t *)(at + i))[c], to = c * result_step + i * a->inner;
            indices[to] = index;
            memcpy(values + to * size, x + (c * row_step + index * step) * size, (size_t)size);
        }
}

/* Copies columns of a matrix, whose rows are `inner` elements apart, to dense rows. */
static void copy_columns(char *to, const char *x, int64_t columns, int64_t count, int64_t inner,
                         int64_t size) {
#define COPY(type)                                                                                           \
    for (int64_t i = 0; i < count; i++)                                                                      \
        for (int64_t c = 0; c < columns; c++)                                                                \
            ((type *)to)[c * count + i] = ((const type *)x)[i * inner + c];                                  \
    break;
    switch (size) {
    case 1: COPY(uint8_t)
    case 2: COPY(uint16_t)
    case 4: COPY(uint32_t)
    default: COPY(uint64_t)
    }
#undef COPY
}

/* Ranks short rows in groups that fill the lanes. */
static void rank_short_rows(const struct top_k_args *a, int64_t begin, int64_t end, void *const *buf,
                            void *scratch) {
    const int64_t size = bytes_of(a->code), count = a->count, inner = a->inner, k = a->k;
    for (int64_t row = begin, rows; row < end; row += rows) {
        const int64_t outer = row / inner, column = row % inner;
        rows = smaller(VL, smaller(end - row, inner == 1 ? end - row : inner - column));
        const int64_t from = outer * count * inner + column, to = outer * k * inner + column;
        rank_lanes(a, (const char *)buf[TOP_K_X] + from * size, rows, inner == 1 ? count : 1, inner,
                   (char *)buf[TOP_K_VALUES] + to * size, (int64_t *)buf[TOP_K_INDICES] + to,
                   inner == 1 ? k : 1, scratch);
    }
}

GW_KERNEL(gw_top_k) {
    enum { MOST_COLUMNS = 16 };
    const struct top_k_args *a = top_k_args(arg);
    if (bytes_of(a->code) <= 4 && a->count <= SHORT && a->k * a->count <= SHORT_STEPS && a->k > 0) {
        rank_short_rows(a, begin, end, buf, scratch);
        return 0;
    }
    const int64_t size = bytes_of(a->code), count = a->count, inner = a->inner, k = a->k;
    char *const dense = scratch, *const entries = dense + (inner > 1 ? COLUMN_BYTES : 0);
    const int64_t fit = COLUMN_BYTES / (count * size + !count);
    const int64_t most = inner == 1 ? 0 : smaller(fit, MOST_COLUMNS);
    for (int64_t row = begin, columns; row < end && k > 0; row += columns) {
        const int64_t outer = row / inner, column = row % inner;
        const int64_t left = smaller(end - row, inner - column);
        const char *x = (const char *)buf[TOP_K_X] + (outer * count * inner + column) * size;
        columns = most ? smaller(left, most) : 1;
        if (most)
            copy_columns(dense, x, columns, count, inner, size);
        for (int64_t c = 0; c < columns; c++) {
            const int64_t at = outer * k * inner + column + c;
            rank_row(a, most ? dense + c * count * size : x, most ? size : inner * size,
                     (char *)buf[TOP_K_VALUES] + at * size, (int64_t *)buf[TOP_K_INDICES] + at, entries);
        }
    }
    return 0;
}
