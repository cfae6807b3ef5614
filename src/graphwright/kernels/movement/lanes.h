/* Loads of runs of 16 bytes to the lanes of vectors, and non-temporal stores. */

#ifndef GW_MOVEMENT_LANES_H
#define GW_MOVEMENT_LANES_H

#include "cpu/vector.h"
#include "library/assembly.h"

typedef int32_t v16 __attribute__((vector_size(16)));
typedef int32_t v16_any __attribute__((vector_size(16), aligned(1), may_alias));
typedef int32_t v_any __attribute__((vector_size(sizeof(vi)), aligned(1), may_alias));

/* Non-temporal store; p is aligned to the vector. */
GW_INLINE void put_past_caches(char *p, vi x) {
    __asm__("vmovntps %1, %0" : "=m"(*(vi_any *)p) : VECTOR_REGISTER(x));
}
/* Makes non-temporal stores visible to other threads. */
GW_INLINE void end_stream(void) { __asm__ volatile("sfence" ::: "memory"); }

GW_INLINE v16 lanes_16(const char *a) { return *(const v16_any *)a; }
GW_INLINE void put_16(char *p, v16 x, int stream) {
    (void)stream;
    *(v16_any *)p = x;
}

#if VL == 16
typedef vi v64;
/* Inserts lanes from memory: a compiler would join registers, which takes a shuffle. */
GW_INLINE v64 lanes_64(const char *a, const char *b, const char *c, const char *d) {
    v64 x;
    __asm__("vmovups %1, %x0" : "=v"(x) : "m"(*(const v16_any *)a));
    __asm__("vinserti32x4 $1, %1, %0, %0" : "+v"(x) : "m"(*(const v16_any *)b));
    __asm__("vinserti32x4 $2, %1, %0, %0" : "+v"(x) : "m"(*(const v16_any *)c));
    __asm__("vinserti32x4 $3, %1, %0, %0" : "+v"(x) : "m"(*(const v16_any *)d));
    return x;
}
GW_INLINE void put_64(char *p, v64 x, int stream) {
    if (stream)
        put_past_caches(p, x);
    else
        *(v_any *)p = x;
}
#else
typedef vi v32;
GW_INLINE v32 lanes_32(const char *a, const char *b) {
    return __builtin_shufflevector(lanes_16(a), lanes_16(b), 0, 1, 2, 3, 4, 5, 6, 7);
}
GW_INLINE void put_32(char *p, v32 x, int stream) {
    if (stream)
        put_past_caches(p, x);
    else
        *(v_any *)p = x;
}
#endif

#endif
