/* The threads of the host's that are in a run: its caller's, and those that the host has spread the run to.
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "plan.h"

typedef struct {
    int limit;        /* slots; that of the caller is 0 */
    atomic_int taken; /* may be more than there are */
    pthread_t threads[GW_MAX_THREADS];
    atomic_bool awake[GW_MAX_THREADS]; /* in the run, and does not wait for work */
    atomic_int inside;                 /* threads in the run beside the caller's */
    _Alignas(128) atomic_uint departures;
} gw_hosted;

/* From the caller's thread. */
void gw_hosted_open(gw_hosted *hosted, int limit);
/* The slot of this thread; -1: the run has threads enough. */
int gw_hosted_enter(gw_hosted *hosted);
void gw_hosted_leave(gw_hosted *hosted, int slot);
/* Sleeps while `word` is `value`; a thread that has lost its core goes on on this one. May return early. */
void gw_hosted_wait(gw_hosted *hosted, int slot, atomic_uint *word, unsigned value);
/* The caller waits until it is alone in the run. */
void gw_hosted_close(gw_hosted *hosted);
