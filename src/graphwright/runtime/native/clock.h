/* Time for spinning and for events. */
#pragma once
#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment in the past. */
static inline int64_t gw_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds that this thread has had a processor. */
static inline int64_t gw_processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
