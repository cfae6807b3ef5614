/* Counters of the processor and of the system for one thread, by perf_event_open: as many as the machine and
   its settings allow. What the system does for the thread does not count, as that needs privileges. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { GW_MOST_COUNTERS = 4 };

/* In the order of their names in Python (runtime/counters.py). */
typedef enum {
    GW_CYCLES,
    GW_INSTRUCTIONS,
    GW_L1D_MISSES,  /* of loads */
    GW_LLC_MISSES,  /* of the last level of caches */
    GW_PAGE_FAULTS, /* which the system counts on any machine */
    GW_COUNTERS
} gw_counter;

/* Those of one thread, while it counts; all of them count at the same time. */
typedef struct {
    int count;
    int files[GW_MOST_COUNTERS]; /* the first leads the group */
} gw_counter_group;

/* Whether this thread can count `counter`. */
bool gw_can_count(int counter);
/* Counts for this thread from now on; false, and nothing is open, if not all of them can be had at once. */
bool gw_open_counters(gw_counter_group *group, const int *counters, int count);
/* What they are now; all 0 where they cannot be read. */
void gw_read_counters(const gw_counter_group *group, int64_t values[GW_MOST_COUNTERS]);
void gw_close_counters(gw_counter_group *group);
