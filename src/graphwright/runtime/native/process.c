#include "process.h"

#include <pthread.h>
#include <stdatomic.h>

#include "events.h"
#include "pool.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int generation;

void gw_global_lock(void) { pthread_mutex_lock(&lock); }
void gw_global_unlock(void) { pthread_mutex_unlock(&lock); }
int gw_process_generation(void) { return atomic_load(&generation); }

/* The forking thread holds every lock, so that the child sees consistent data. */
static void before_fork(void) {
    pthread_mutex_lock(&lock);
    gw_pool_before_fork();
}

static void after_fork_in_parent(void) {
    gw_pool_after_fork(false);
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void) {
    atomic_fetch_add(&generation, 1);
    gw_events_after_fork();
    gw_pool_after_fork(true);
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
