#include "pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "cpu.h"
#include "lock.h"
#include "process.h"
#include "stalled.h"
#include "team.h"

/* Long enough to span the gap between two runs of a loop, short enough not to steal a core: waking costs
   about 5 us. */
enum { SPIN_NS = 50000, PAUSES = 16 };
enum { NO_CORE = -1, UNSETTLED = -2 };

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards teams, workers, and the pool's part of each team */
static gw_team *teams;
static int workers;
static pthread_t worker_threads[GW_MAX_THREADS];
static int avoided = UNSETTLED;         /* the core that workers avoid */
static atomic_int threads;              /* 0: not set yet */
static _Alignas(128) atomic_uint calls; /* changes when a team asks for help */
static _Alignas(128) atomic_int sleepers;
static _Alignas(128) atomic_uint departures; /* changes when a worker leaves a team */
static atomic_int farewells;                 /* callers that sleep until `departures` changes */

bool gw_spin(const atomic_uint *word, unsigned value) {
    for (int64_t start = gw_now(); gw_now() - start < SPIN_NS;)
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value)
                return true;
            __builtin_ia32_pause();
        }
    return atomic_load(word) != value;
}

void gw_futex_wait(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void gw_futex_wake(atomic_uint *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

int gw_pool_threads(void) {
    int count = atomic_load_explicit(&threads, memory_order_relaxed);
    if (count > 0)
        return count;
    count = gw_cpu_count();
    count = count < GW_MAX_THREADS ? count : GW_MAX_THREADS;
    atomic_store(&threads, count);
    return count;
}

void gw_pool_set_threads(int count) {
    atomic_store(&threads, count < GW_MAX_THREADS ? count : GW_MAX_THREADS);
}

int gw_pool_workers(void) {
    gw_lock(&lock);
    int count = workers;
    pthread_mutex_unlock(&lock);
    return count;
}

/* Joins the team with the fewest workers among those that may have work for another one. Returns the team, or
   NULL if there is none. */
static gw_team *enter(int *slot) {
    gw_team *best = NULL;
    gw_lock(&lock);
    for (gw_team *team = teams; team; team = team->next)
        if (team->guests < team->limit && atomic_load(&team->version) != team->idle &&
            (!best || team->guests < best->guests))
            best = team;
    for (int i = 1; best && i <= best->limit; i++)
        if (!best->taken[i]) {
            *slot = i;
            best->taken[i] = true;
            atomic_fetch_add(&best->guests, 1);
            break;
        }
    pthread_mutex_unlock(&lock);
    return best;
}

/* After the unlock, the team may be freed: only variables of the pool are accessed then. */
static void leave(gw_team *team, int slot, uint32_t seen) {
    gw_lock(&lock);
    team->idle = seen;
    team->taken[slot] = false;
    atomic_fetch_sub(&team->guests, 1);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&departures, 1);
    if (atomic_load(&farewells) > 0)
        gw_futex_wake(&departures, INT_MAX);
}

/* ---- where threads run ---- */

/* Whether no other caller is in a run. The lock is held. */
static bool is_alone(const gw_team *team) { return !teams || (teams == team && !team->next); }

/* Keeps workers off the core of the caller if it is the only caller and there are enough cores. The scheduler
   tends to wake a thread on the core of its waker, where the two would take turns spinning. The lock is held.
 */
static void make_room(const gw_team *team) {
    cpu_set_t cores;
    int core = is_alone(team) ? sched_getcpu() : NO_CORE;
    if (core == avoided || sched_getaffinity(0, sizeof cores, &cores) != 0 ||
        CPU_COUNT(&cores) <= team->limit)
        return;
    if (core != NO_CORE)
        CPU_CLR(core, &cores);
    for (int i = 0; i < workers; i++)
        pthread_setaffinity_np(worker_threads[i], sizeof cores, &cores);
    avoided = core;
}

/* Moves stalled workers to the core of the caller, which is about to sleep until the workers are done. */
static void call_over(const gw_team *team) {
    int64_t before[GW_MAX_THREADS];
    cpu_set_t here;
    int core = sched_getcpu();
    gw_lock(&lock);
    int count = avoided >= 0 ? workers : 0;
    pthread_mutex_unlock(&lock);
    if (core < 0 || count == 0)
        return;
    CPU_ZERO(&here);
    CPU_SET(core, &here);
    for (int i = 0; i < count; i++)
        before[i] = gw_thread_time(worker_threads[i]);
    gw_wait_for_progress();
    gw_lock(&lock);
    for (int i = 0; i < count && is_alone(team); i++)
        if (gw_is_stalled(worker_threads[i], before[i])) {
            pthread_setaffinity_np(worker_threads[i], sizeof here, &here);
            avoided = UNSETTLED;
        }
    pthread_mutex_unlock(&lock);
}

/* Moves a stalled caller to the core of this worker, which has no work and is about to sleep. The caller is
   not pinned to the core. */
static void take_over(void) {
    gw_lock(&lock);
    const gw_team *team = teams && !teams->next && avoided >= 0 ? teams : NULL;
    int64_t before = team ? gw_thread_time(team->caller) : 0;
    pthread_mutex_unlock(&lock);
    if (!team)
        return;
    gw_wait_for_progress();
    gw_lock(&lock);
    if (teams == team && is_alone(team) && gw_is_stalled(team->caller, before) &&
        gw_move_to_this_core(team->caller))
        avoided = UNSETTLED;
    pthread_mutex_unlock(&lock);
}

/* ---- workers ---- */

static void *work(void *unused) {
    for (;;) {
        int slot = 0;
        unsigned seen = atomic_load(&calls);
        gw_team *team = enter(&slot);
        if (team) {
            leave(team, slot, team->help(team, slot));
            continue;
        }
        if (gw_spin(&calls, seen))
            continue;
        take_over();
        atomic_fetch_add(&sleepers, 1);
        gw_futex_wait(&calls, seen);
        atomic_fetch_sub(&sleepers, 1);
    }
    return unused;
}

/* Starts a worker, with all signals blocked: they belong to the application. The run continues without a
   thread that cannot start. The lock is held. */
static void hire(int wanted) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (workers >= wanted)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (workers < wanted) {
        if (pthread_create(&worker_threads[workers], &attributes, work, NULL) != 0)
            break;
        pthread_setname_np(worker_threads[workers], "graphwright");
        workers++;
        avoided = UNSETTLED; /* the new thread has the affinity of this one */
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- teams ---- */

static void list(gw_team *team) {
    gw_lock(&lock);
    team->generation = gw_process_generation();
    team->listed = true;
    team->caller = pthread_self();
    team->idle = atomic_load(&team->version) - 1;
    team->next = teams;
    teams = team;
    hire(team->limit);
    make_room(team);
    pthread_mutex_unlock(&lock);
}

void gw_team_offer(gw_team *team, int wanted) {
    int free_guests = team->limit - atomic_load(&team->guests);
    if (free_guests <= 0)
        return;
    if (!team->listed) /* the first offer comes from the thread of the caller, which is still alone */
        list(team);
    atomic_fetch_add(&calls, 1);
    if (atomic_load(&sleepers) == 0)
        return;
    gw_lock(&lock);
    make_room(team);
    pthread_mutex_unlock(&lock);
    gw_futex_wake(&calls, wanted < free_guests ? wanted : free_guests);
}

static void rest(const gw_team *team, atomic_uint *word, unsigned value) {
    call_over(team);
    gw_futex_wait(word, value);
}

void gw_team_wait(gw_team *team, unsigned value) {
    rest(team, &team->version, value);
    gw_lock(&lock);
    make_room(team);
    pthread_mutex_unlock(&lock);
}

static void unlist(gw_team *team) {
    for (gw_team **at = &teams; *at; at = &(*at)->next)
        if (*at == team) {
            *at = team->next;
            return;
        }
}

void gw_team_retract(gw_team *team) {
    if (!team->listed)
        return;
    gw_lock(&lock);
    unlist(team);
    /* A child process does not have the workers of its parent. */
    while (team->generation == gw_process_generation() && atomic_load(&team->guests) > 0) {
        unsigned seen = atomic_load(&departures);
        pthread_mutex_unlock(&lock);
        atomic_fetch_add(&farewells, 1);
        if (!gw_spin(&departures, seen))
            rest(team, &departures, seen);
        atomic_fetch_sub(&farewells, 1);
        gw_lock(&lock);
    }
    team->listed = false;
    pthread_mutex_unlock(&lock);
}

void gw_pool_before_fork(void) { gw_lock(&lock); }

void gw_pool_after_fork(bool child) {
    if (child) { /* the child has no workers: the next offer starts new ones */
        teams = NULL;
        workers = 0;
        atomic_store(&sleepers, 0);
        atomic_store(&farewells, 0);
    }
    pthread_mutex_unlock(&lock);
}
