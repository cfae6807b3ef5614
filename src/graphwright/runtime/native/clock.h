/* Time for spinning and for events. */
#pragma once
#include <stdint.h>
#include <time.h>

/* Monotonic time in nanoseconds. */
static inline int64_t gw_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The CPU time of this thread in nanoseconds. */
static inline int64_t gw_processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
