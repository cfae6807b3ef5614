/* Hardware and software performance counters of one thread, through perf_event_open, as far as the machine
   and its settings allow. Only user mode is counted, as kernel mode needs privileges. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { GW_MOST_COUNTERS = 4 };

/* In the order of their names in Python (runtime/events/counters.py). */
typedef enum {
    GW_CYCLES,
    GW_INSTRUCTIONS,
    GW_L1D_MISSES,  /* of loads */
    GW_LLC_MISSES,  /* of the last level of caches */
    GW_PAGE_FAULTS, /* which the system counts on any machine */
    GW_COUNTERS
} gw_counter;

/* The open counters of one thread, which count at the same time. */
typedef struct {
    int count;
    int files[GW_MOST_COUNTERS]; /* the first leads the group */
} gw_counter_group;

/* Whether this thread can count `counter`. */
bool gw_can_count(int counter);
/* Starts counting for this thread; false, with nothing open, if not all counters are available at the same
 * time. */
bool gw_open_counters(gw_counter_group *group, const int *counters, int count);
/* Reads the counters; all 0 if they cannot be read. */
void gw_read_counters(const gw_counter_group *group, int64_t values[GW_MOST_COUNTERS]);
void gw_close_counters(gw_counter_group *group);
