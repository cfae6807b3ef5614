/* The process-wide lock of caches and pools, which is held briefly, and the handling of forks. */
#pragma once

void gw_global_lock(void);
void gw_global_unlock(void);

/* The number of forks from the first process to this one. */
int gw_process_generation(void);
