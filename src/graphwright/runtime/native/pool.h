/* The process's worker threads. They help runs that ask for it, and sleep otherwise; callers' threads do the rest. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

/* A run that workers may help. */
typedef struct gw_team {
    /* Works as thread `slot` until the run ends or has had no work for a while; returns the `version` it saw last. */
    uint32_t (*help)(struct gw_team *team, int slot);
    int limit;                /* workers at most; slots are 1 .. limit */
    atomic_int guests;        /* workers in the run */
    _Alignas(128) atomic_uint version; /* changes when there may be new work */
    /* The rest belongs to the pool. */
    struct gw_team *next;
    uint32_t idle; /* at this version a worker found nothing to do */
    int generation;
    bool listed;
    bool taken[GW_MAX_THREADS];
} gw_team;

/* Threads of a run that does not say how many: set_threads, or the CPUs this process may use. */
int gw_pool_threads(void);
void gw_pool_set_threads(int threads);
int gw_pool_workers(void);

/* There is work for `wanted` more threads: list the team and wake as many. Cheap if enough are there. */
void gw_pool_offer(gw_team *team, int wanted);
/* No worker is in the team any more when this returns. */
void gw_pool_retract(gw_team *team);

void gw_pool_before_fork(void);
void gw_pool_after_fork(bool child);

/* Waits until *word != value: spins for about 50 us; false if it is still equal then. */
bool gw_spin(const atomic_uint *word, unsigned value);
void gw_futex_wait(atomic_uint *word, unsigned value);
void gw_futex_wake(atomic_uint *word, int count);
int64_t gw_now(void);
