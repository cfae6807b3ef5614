/* Threads that have lost their core to another process, perhaps for milliseconds, while the run waits. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

int64_t gw_thread_time(pthread_t thread);
/* Waits long enough to see whether threads get on. */
void gw_wait_for_progress(void);
/* Whether a thread did not get on during gw_wait_for_progress, or sleeps. `before`: its processor time before
 * that. */
bool gw_is_stalled(pthread_t thread, int64_t before);
/* Moves a thread to this core, if it may run here; it may move on when it likes. */
bool gw_move_to_this_core(pthread_t thread);
