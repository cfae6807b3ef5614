#include "hosted.h"

#include <limits.h>
#include <string.h>

#include "stalled.h"
#include "team.h"

enum { FULL = -1 };

static void take(gw_hosted *hosted, int slot) {
    hosted->threads[slot] = pthread_self();
    atomic_store(&hosted->awake[slot], true);
}

void gw_hosted_open(gw_hosted *hosted, int limit) {
    memset(hosted, 0, sizeof *hosted);
    hosted->limit = limit;
    atomic_store(&hosted->taken, 1);
    take(hosted, 0);
}

int gw_hosted_enter(gw_hosted *hosted) {
    if (pthread_equal(pthread_self(), hosted->threads[0]))
        return 0;
    int slot = atomic_fetch_add(&hosted->taken, 1);
    if (slot >= hosted->limit)
        return FULL;
    atomic_fetch_add(&hosted->inside, 1);
    take(hosted, slot);
    return slot;
}

void gw_hosted_leave(gw_hosted *hosted, int slot) {
    if (slot == 0)
        return;
    atomic_store(&hosted->awake[slot], false);
    atomic_fetch_sub(&hosted->inside, 1);
    atomic_fetch_add(&hosted->departures, 1);
    if (!atomic_load(&hosted->awake[0]))
        gw_futex_wake(&hosted->departures, INT_MAX);
}

/* Moves stalled threads to the core of this thread, which is about to sleep. */
static void fetch_stalled(gw_hosted *hosted) {
    int64_t before[GW_MAX_THREADS] = {0};
    for (int slot = 0; slot < hosted->limit; slot++)
        if (atomic_load(&hosted->awake[slot]))
            before[slot] = gw_thread_time(hosted->threads[slot]);
    gw_wait_for_progress();
    for (int slot = 0; slot < hosted->limit; slot++)
        if (before[slot] && atomic_load(&hosted->awake[slot]) &&
            gw_is_stalled(hosted->threads[slot], before[slot]))
            gw_move_to_this_core(hosted->threads[slot]);
}

void gw_hosted_wait(gw_hosted *hosted, int slot, atomic_uint *word, unsigned value) {
    atomic_store(&hosted->awake[slot], false);
    fetch_stalled(hosted);
    gw_futex_wait(word, value);
    atomic_store(&hosted->awake[slot], true);
}

void gw_hosted_close(gw_hosted *hosted) {
    for (unsigned seen; seen = atomic_load(&hosted->departures), atomic_load(&hosted->inside) > 0;)
        if (!gw_spin(&hosted->departures, seen))
            gw_hosted_wait(hosted, 0, &hosted->departures, seen);
}
