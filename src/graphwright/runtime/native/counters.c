#include "counters.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NO_FILE = -1 };

typedef struct {
    uint32_t type;
    uint64_t config;
} source;

static uint64_t missed_loads(uint64_t cache) {
    return cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
}

static source source_of(int counter) {
    switch (counter) {
    case GW_CYCLES: return (source){PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES};
    case GW_INSTRUCTIONS: return (source){PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS};
    case GW_L1D_MISSES: return (source){PERF_TYPE_HW_CACHE, missed_loads(PERF_COUNT_HW_CACHE_L1D)};
    case GW_LLC_MISSES: return (source){PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES};
    default: return (source){PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS};
    }
}

static int open_counter(int counter, int leader) {
    const source of = source_of(counter);
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = of.type;
    attributes.config = of.config;
    attributes.read_format = PERF_FORMAT_GROUP;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

bool gw_can_count(int counter) {
    int file = open_counter(counter, NO_FILE);
    if (file < 0)
        return false;
    close(file);
    return true;
}

bool gw_open_counters(gw_counter_group *group, const int *counters, int count) {
    group->count = 0;
    for (int i = 0; i < count; i++) {
        int file = open_counter(counters[i], i == 0 ? NO_FILE : group->files[0]);
        if (file < 0) {
            gw_close_counters(group);
            return false;
        }
        group->files[group->count++] = file;
    }
    return true;
}

void gw_read_counters(const gw_counter_group *group, int64_t values[GW_MOST_COUNTERS]) {
    struct {
        uint64_t count, values[GW_MOST_COUNTERS];
    } all = {0};
    memset(values, 0, GW_MOST_COUNTERS * sizeof *values);
    if (group->count == 0 || read(group->files[0], &all, sizeof all) < (ssize_t)sizeof all.count)
        return;
    for (int i = 0; i < group->count && i < (int)all.count; i++)
        values[i] = (int64_t)all.values[i];
}

void gw_close_counters(gw_counter_group *group) {
    while (group->count > 0)
        close(group->files[--group->count]);
}
