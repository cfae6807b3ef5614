/* The state of one run of a plan, shared by the files of the executor: task.c runs one task, sequential.c all
   tasks on one thread, parallel.c on many. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "exec.h"
#include "hosted.h"
#include "poison.h"
#include "team.h"

enum { GW_NO_TASK = -1 };
enum { GW_REGIONS = 8 };          /* launches whose chunks are handed out at the same time, at most */
enum { GW_POLL_ITERATIONS = 64 }; /* of a loop: from then on, and so often, a run polls for an interrupt */
enum { GW_REGION_WORD = 64, GW_REGION_WORDS = GW_MOST_CHUNKS / GW_REGION_WORD };

/* A launch whose chunks are handed out to threads. */
typedef struct {
    _Alignas(128)
        atomic_uint_least64_t open[GW_REGION_WORDS]; /* a bit per chunk that is not handed out yet */
    atomic_int_least32_t share;                      /* chunks that each thread takes first */
    int64_t task;
    bool busy;                               /* guarded by the run's lock */
    _Alignas(128) atomic_int_least32_t left; /* chunks that have not finished */
} gw_region;

typedef struct {
    gw_team team;
    const gw_call *call;
    int64_t number;       /* identifies the run in events */
    gw_hosted *hosted;    /* if the host has spread the run to its own threads: those in the run; or NULL */
    pthread_mutex_t lock; /* guards the context's counters, the regions' `busy`, poison, the error */
    int64_t ready_first, ready_end; /* ring buffer of ready tasks: tasks of a loop become ready many times */
    gw_poison poison;
    gw_error *error;
    _Alignas(128) atomic_bool failed; /* the remaining tasks are skipped */
    atomic_bool finished;
    atomic_int asleep;         /* threads in the run that sleep until there is work */
    atomic_bool has_long_loop; /* some loop has run GW_POLL_ITERATIONS iterations */
    int64_t polled_at;         /* when the caller's thread last polled for an interrupt */
    int region_words;          /* words of a region's `open` that its chunks can use */
    gw_region regions[GW_REGIONS];
} gw_run;

/* ---- task.c ---- */

/* Records the first failure; the run then skips the remaining tasks. */
void gw_run_fail(gw_run *r, gw_error_kind kind, int64_t task, int64_t code);
/* On the caller's thread: fails the run if its host wants it to stop. It asks only while there are long
   loops, and only every 50 ms. */
void gw_poll_interrupt(gw_run *r);
void *const *gw_task_operands(const gw_run *r, int64_t task);
int64_t gw_read_i64(const void *memory);
/* The block that an IF runs. */
int64_t gw_selected_block(const gw_run *r, int64_t task);
/* Whether a LOOP runs iteration `number`; if so, stores the number where the body reads it. */
bool gw_begin_iteration(gw_run *r, int64_t task, int64_t number);
/* Runs units [begin, end) of a task without blocks. */
void gw_perform(gw_run *r, int64_t task, int64_t begin, int64_t end, int slot);
/* Runs all units of a task without blocks, on this thread. */
void gw_perform_alone(gw_run *r, int64_t task, int slot);
/* Records that an IF or LOOP begins or ends. */
void gw_record_edge(const gw_run *r, int64_t task, int kind, int slot);

/* ---- sequential.c ---- */

/* Runs the tasks of a block in program order, which respects all dependencies. */
void gw_run_block(gw_run *r, int64_t block, int slot);
/* Runs all iterations of a LOOP. */
void gw_run_iterations(gw_run *r, int64_t task, int slot);

/* ---- parallel.c ---- */

/* Runs all tasks on this thread and on those that help. */
void gw_run_parallel(gw_run *r);
/* The `help` of the run's team: works as thread `slot` until there is nothing to do. */
uint32_t gw_run_help(gw_team *team, int slot);
