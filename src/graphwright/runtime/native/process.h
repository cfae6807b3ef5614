/* What all programs of the process share: one lock for caches and pools, held briefly, and what a fork does
   to it. */
#pragma once

void gw_global_lock(void);
void gw_global_unlock(void);

/* How many forks lie between the first process and this one. */
int gw_process_generation(void);
