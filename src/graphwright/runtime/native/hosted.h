/* The threads of the host that take part in a run: the caller's, and those that the host has spread the run
 * to. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "plan.h"

typedef struct {
    int limit;        /* the number of slots; the caller has slot 0 */
    atomic_int taken; /* threads that asked for a slot, perhaps more than there are slots */
    pthread_t threads[GW_MAX_THREADS];
    atomic_bool awake[GW_MAX_THREADS]; /* in the run, and does not wait for work */
    atomic_int inside;                 /* threads in the run in addition to the caller's */
    _Alignas(128) atomic_uint departures;
} gw_hosted;

/* Must be called on the caller's thread. */
void gw_hosted_open(gw_hosted *hosted, int limit);
/* Assigns a slot to this thread; -1 if the run has enough threads. */
int gw_hosted_enter(gw_hosted *hosted);
void gw_hosted_leave(gw_hosted *hosted, int slot);
/* Sleeps while `word` is `value`, and lets a thread that was preempted continue on this core. May return
 * early. */
void gw_hosted_wait(gw_hosted *hosted, int slot, atomic_uint *word, unsigned value);
/* The caller waits until all other threads have left the run. */
void gw_hosted_close(gw_hosted *hosted);
