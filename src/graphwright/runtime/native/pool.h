/* The process's worker threads: how many, and what a fork does to them. Runs ask for their help through
   team.h. */
#pragma once
#include <stdbool.h>

/* Threads of a run that does not say how many: set_threads, or the CPUs this process may use. */
int gw_pool_threads(void);
void gw_pool_set_threads(int threads);
/* Worker threads that have been started; they sleep when no run wants them. */
int gw_pool_workers(void);

void gw_pool_before_fork(void);
void gw_pool_after_fork(bool child);
