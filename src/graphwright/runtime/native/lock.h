/* Locks a mutex that is held for well under a microsecond. */
#pragma once
#include <pthread.h>

/* Spins for about 2 us before it sleeps, as a sleeping thread may wait milliseconds for a busy core. */
static inline void gw_lock(pthread_mutex_t *lock) {
    for (int i = 0; i < 64; i++) {
        if (pthread_mutex_trylock(lock) == 0)
            return;
        __builtin_ia32_pause();
    }
    pthread_mutex_lock(lock);
}
