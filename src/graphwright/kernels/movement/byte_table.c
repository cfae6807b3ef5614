/* Lookups of bytes: see byte_table.py. */

#include "library/sizes.h"

#include "movement/byte_table.gen.h"

#include "library/features.h"

static void look_up(const uint8_t *x, const uint8_t *table, int64_t count, uint8_t *y) {
    for (int64_t i = 0; i < count; i++)
        y[i] = table[x[i]];
}

#if VL == 16
typedef uint8_t v64 __attribute__((vector_size(64), aligned(1), may_alias));

/* Two registers hold half of the table, which vpermi2b reads by 7 bits of each index; the highest bit chooses
 * between the halves. */
__attribute__((target("avx512vbmi"))) static void look_up_vbmi(const uint8_t *x, const uint8_t *table,
                                                               int64_t count, uint8_t *y) {
    const v64 t0 = *(const v64 *)table, t1 = *(const v64 *)(table + 64);
    const v64 t2 = *(const v64 *)(table + 128), t3 = *(const v64 *)(table + 192);
    int64_t i = 0;
    for (; i + 64 <= count; i += 64) {
        const v64 index = *(const v64 *)(x + i);
        v64 low = index, high = index;
        __asm__("vpermi2b %2, %1, %0" : "+v"(low) : "v"(t0), "v"(t1));
        __asm__("vpermi2b %2, %1, %0" : "+v"(high) : "v"(t2), "v"(t3));
        const v64 is_high = (v64)(index >= 128);
        *(v64 *)(y + i) = (high & is_high) | (low & ~is_high);
    }
    look_up(x + i, table, count - i, y + i);
}
#endif

static void run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, int with_vbmi) {
    const int64_t first = begin * UNIT_LOOKUPS,
                  last = smaller(end * UNIT_LOOKUPS, byte_table_args(arg)->count);
    const uint8_t *x = (const uint8_t *)buf[BYTE_TABLE_X] + first;
    uint8_t *y = (uint8_t *)buf[BYTE_TABLE_Y] + first;
#if VL == 16
    if (with_vbmi) {
        look_up_vbmi(x, buf[BYTE_TABLE_TABLE], last - first, y);
        return;
    }
#endif
    (void)with_vbmi;
    look_up(x, buf[BYTE_TABLE_TABLE], last - first, y);
}

GW_KERNEL(gw_byte_table) {
    (void)scratch;
    run(buf, arg, begin, end, has_vbmi());
    return 0;
}

GW_KERNEL(gw_byte_table_scalar) {
    (void)scratch;
    run(buf, arg, begin, end, 0);
    return 0;
}
