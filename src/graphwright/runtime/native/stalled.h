/* Detects threads of a run that were preempted by another process, perhaps for milliseconds, while the run
   waits for them, and moves them to another core. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The CPU time of a thread in nanoseconds. */
int64_t gw_thread_time(pthread_t thread);
/* Waits long enough to see whether threads make progress. */
void gw_wait_for_progress(void);
/* Whether a thread made no progress during gw_wait_for_progress, or sleeps. `before` is its CPU time before
   the wait. */
bool gw_is_stalled(pthread_t thread, int64_t before);
/* Moves a thread to the current core, if its affinity allows that; it is not pinned there. */
bool gw_move_to_this_core(pthread_t thread);
