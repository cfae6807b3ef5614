/* A run and the workers that help it. Workers sleep until a run asks for them; the caller's thread takes part
   in its own run. */
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
    int limit;                         /* the most workers; their slots are 1 .. limit */
    atomic_int guests;                 /* workers that are in the run */
    _Alignas(128) atomic_uint version; /* changes when there may be new work */
    /* The rest belongs to the pool. */
    _Alignas(128) struct gw_team *next;
    pthread_t caller;
    uint32_t idle; /* at this version a worker found nothing to do */
    int generation;
    bool listed;
    bool taken[GW_MAX_THREADS];
} gw_team;

/* Announces work for `wanted` more threads: lists the team, and wakes as many workers. Cheap if enough are
 * awake. */
void gw_team_offer(gw_team *team, int wanted);
/* The caller sleeps while the version is `value`; workers may run on its core in the meantime. May return
 * early. */
void gw_team_wait(gw_team *team, unsigned value);
/* Removes the team from the list and waits until all workers have left it. */
void gw_team_retract(gw_team *team);

/* Spins for about 50 us until *word != value; false if it is still equal then. */
bool gw_spin(const atomic_uint *word, unsigned value);
/* Sleeps while the word is `value`. It may return early, so callers must check the word again. */
void gw_futex_wait(atomic_uint *word, unsigned value);
/* Wakes up to `count` threads that sleep on the word. */
void gw_futex_wake(atomic_uint *word, int count);
