/* CPU features beyond the ISA level. Each is queried once, since a virtual machine traps CPUID. */

#ifndef GW_FEATURES_H
#define GW_FEATURES_H

#include "cpu/vector.h"

#if VL == 16
#include <cpuid.h>

/* Whether the CPU has a feature that `ask` reads by CPUID leaf 7. known: 0 not queried yet, 1 no, 2 yes;
 * threads that race write the same value. */
GW_INLINE int has_feature(int *known, int (*ask)(void)) {
    int found = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!found) {
        found = ask() ? 2 : 1;
        __atomic_store_n(known, found, __ATOMIC_RELAXED);
    }
    return found == 2;
}

/* AVX512-VNNI: leaf 7, ECX bit 11. */
GW_INLINE int ask_vnni(void) {
    uint32_t a, b, c = 0, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1);
}
GW_INLINE int has_vnni(void) {
    static int known;
    return has_feature(&known, ask_vnni);
}

/* AVX512-BF16: leaf 7, subleaf 1, EAX bit 5. */
GW_INLINE int ask_bf16(void) {
    uint32_t a = 0, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}
GW_INLINE int has_bf16(void) {
    static int known;
    return has_feature(&known, ask_bf16);
}
#else
GW_INLINE int has_vnni(void) { return 0; }
GW_INLINE int has_bf16(void) { return 0; }
#endif

#endif
