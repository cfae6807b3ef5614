/* The worker threads of the process: their number, and the handling of forks. Runs get workers through
 * team.h. */
#pragma once
#include <stdbool.h>

/* The default number of threads of a run: as set by set_threads, or the CPUs that this process may use. */
int gw_pool_threads(void);
void gw_pool_set_threads(int threads);
/* The number of worker threads that have been started; idle ones sleep. */
int gw_pool_workers(void);

void gw_pool_before_fork(void);
void gw_pool_after_fork(bool child);
