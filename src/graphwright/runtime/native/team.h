/* A run and the workers that help it. Workers sleep until a run asks; callers' threads take part in their own
   runs. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

typedef struct gw_team {
    /* Works as thread `slot` until the run ends or has had no work for a while; returns the `version` it saw
       last. */
    uint32_t (*help)(struct gw_team *team, int slot);
    int limit;                         /* workers at most; slots are 1 .. limit */
    atomic_int guests;                 /* workers in the run */
    _Alignas(128) atomic_uint version; /* changes when there may be new work */
    /* The rest belongs to the pool. */
    _Alignas(128) struct gw_team *next;
    pthread_t caller;
    uint32_t idle; /* at this version a worker found nothing to do */
    int generation;
    bool listed;
    bool taken[GW_MAX_THREADS];
} gw_team;

/* There is work for `wanted` more threads: list the team and wake as many. Cheap if enough are there. */
void gw_team_offer(gw_team *team, int wanted);
/* The caller sleeps while the version is `value`; meanwhile workers may run on its core. May return early. */
void gw_team_wait(gw_team *team, unsigned value);
/* No worker is in the team any more when this returns. */
void gw_team_retract(gw_team *team);

/* Waits until *word != value: spins for about 50 us; false if it is still equal then. */
bool gw_spin(const atomic_uint *word, unsigned value);
/* Sleeps while it is `value`. An interrupted wait returns early: callers look again. */
void gw_futex_wait(atomic_uint *word, unsigned value);
/* Wakes `count` of those who sleep on it. */
void gw_futex_wake(atomic_uint *word, int count);
