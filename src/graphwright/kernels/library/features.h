/* CPU features beyond the ISA level. Each is queried once, since a virtual machine traps CPUID. AMX_TARGET is
 * the attribute of functions that use AMX, if the compiler knows it. */

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

/* AVX512-VBMI: leaf 7, ECX bit 1. */
GW_INLINE int ask_vbmi(void) {
    uint32_t a, b, c = 0, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 1 & 1);
}
GW_INLINE int has_vbmi(void) {
    static int known;
    return has_feature(&known, ask_vbmi);
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

#if __clang_major__ >= 12 || __GNUC__ >= 11
#define AMX_TARGET __attribute__((target("amx-tile,amx-int8,amx-bf16")))

/* Asks Linux for the state of AMX registers, which a process must do once (arch_prctl, request
 * ARCH_REQ_XCOMP_PERM, component 18). */
GW_INLINE int may_use_amx(void) {
    int64_t result = 158;
    __asm__ volatile("syscall" : "+a"(result) : "D"(0x1023), "S"(18) : "rcx", "r11", "memory");
    return result == 0;
}

/* AMX-BF16, AMX-TILE and AMX-INT8: leaf 7, EDX bits 22, 24 and 25; the system enables the registers by XCR0
 * bits 17 and 18. */
GW_INLINE int ask_amx(void) {
    const uint32_t parts = 1u << 22 | 3u << 24, states = 3u << 17;
    uint32_t a, b, c, d = 0, enabled = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & parts) != parts)
        return 0;
    __asm__("xgetbv" : "=a"(enabled), "=d"(d) : "c"(0));
    return (enabled & states) == states && may_use_amx();
}
GW_INLINE int has_amx(void) {
    static int known;
    return has_feature(&known, ask_amx);
}
#else
GW_INLINE int has_amx(void) { return 0; }
#endif

#else
GW_INLINE int has_vnni(void) { return 0; }
GW_INLINE int has_vbmi(void) { return 0; }
GW_INLINE int has_bf16(void) { return 0; }
GW_INLINE int has_amx(void) { return 0; }
#endif

#endif
