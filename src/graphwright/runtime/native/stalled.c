#include "stalled.h"

#include <sched.h>
#include <time.h>

#include "clock.h"

enum { WAIT_NS = 10000 };

int64_t gw_thread_time(pthread_t thread) {
    clockid_t clock;
    struct timespec t = {0};
    if (pthread_getcpuclockid(thread, &clock) == 0)
        clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void gw_wait_for_progress(void) {
    for (int64_t start = gw_now(); gw_now() - start < WAIT_NS;)
        __builtin_ia32_pause();
}

bool gw_is_stalled(pthread_t thread, int64_t before) { return gw_thread_time(thread) - before < WAIT_NS / 2; }

bool gw_move_to_this_core(pthread_t thread) {
    cpu_set_t here, allowed;
    int core = sched_getcpu();
    if (core < 0 || pthread_getaffinity_np(thread, sizeof allowed, &allowed) != 0 ||
        !CPU_ISSET(core, &allowed))
        return false;
    CPU_ZERO(&here);
    CPU_SET(core, &here);
    pthread_setaffinity_np(thread, sizeof here, &here);
    pthread_setaffinity_np(thread, sizeof allowed, &allowed);
    return true;
}
