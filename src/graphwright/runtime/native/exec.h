/* Runs a plan: tasks in the order of their edges, launches in chunks, on the caller's thread and helping
   workers. */
#pragma once
#include "arena.h"
#include "crash_folder.h"
#include "events.h"

/* Every kernel and hook-taking library kernel. */
typedef int32_t (*gw_kernel)(void *const *operands, const int64_t *args, int64_t begin, int64_t end,
                             void *scratch);

/* Calls back into the host language; not 0: it failed. */
typedef int32_t (*gw_host)(void *host, const gw_plan *plan, int64_t task, void *const *operands);

/* Whether the run is to stop: the thread that called asks now and then, while a loop goes on and on. */
typedef bool (*gw_interrupted)(void *host);

/* Calls body(data) on this thread, and on those of the host's that are free; returns when all calls have
   ended. The body returns whether the thread has taken part in the run. */
typedef void (*gw_spread)(void *host, bool (*body)(void *data), void *data);

typedef struct {
    const gw_program *program;
    const gw_plan *plan; /* made for `plan->threads` threads */
    gw_context *context;
    const int64_t *kernels;
    const void *weights;
    void *const *inputs; /* never written */
    void *const *outputs;
    gw_host host;
    gw_interrupted interrupted; /* or NULL */
    void *host_data;
    bool poison;                   /* fill memory that no task may read with NaN bytes */
    gw_recording *recording;       /* where events of the run go, or NULL; the caller has a reference */
    const char *const *sites;      /* of each task, what a crash in its kernel says; or NULL */
    const gw_crash_run *crash_run; /* what such a crash writes; or NULL */
    gw_spread spread;              /* for plans that are `shared`; or NULL: workers of the process help */
} gw_call;

bool gw_execute(const gw_call *call, gw_error *error);
