/* The executor of plans: runs tasks in the order of their dependencies, and launches in chunks, on the
   caller's thread and on worker threads. */
#pragma once
#include "arena.h"
#include "crash_folder.h"
#include "events.h"

/* The type of all kernels. */
typedef int32_t (*gw_kernel)(void *const *operands, const int64_t *args, int64_t begin, int64_t end,
                             void *scratch);

/* Calls a host function of a task; returns nonzero if it failed. */
typedef int32_t (*gw_host)(void *host, const gw_plan *plan, int64_t task, void *const *operands);

/* Whether the run should stop; the caller's thread polls this during long loops. */
typedef bool (*gw_interrupted)(void *host);

/* Calls body(data) on this thread and on free threads of the host; returns when all calls have ended. The
   body returns whether its thread took part in the run. */
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
    const char *const *sites;      /* for each task, the text that a crash in its kernel prints; or NULL */
    const gw_crash_run *crash_run; /* what a crash writes to a folder; or NULL */
    gw_spread spread;              /* for plans that are `shared`; NULL to use the process's workers */
} gw_call;

bool gw_execute(const gw_call *call, gw_error *error);
