/* Reports a fatal signal in a kernel before the process ends: the kernel and its model, and a folder with
   which the run can be reproduced. */
#pragma once
#include "crash_folder.h"

/* A launch, for as long as its kernel runs. */
typedef struct {
    const char *text;                /* lines about the task: see gw_crash_text */
    const int64_t *args, *registers; /* of the kernel; of the shape program */
    int64_t arg_count, register_count;
    int64_t begin, end, grid;
    const gw_crash_run *run; /* or NULL: no folder is written */
} gw_site;

/* Installs handlers for SIGSEGV, SIGBUS, SIGFPE and SIGILL that report signals in kernels and then call the
   previous handlers. Handlers that are installed later are called first. Only the first fault of a process is
   reported; faults of other threads wait for the report. */
void gw_watch_crashes(void);

/* Sets the launch that runs on this thread; NULL when it has ended. */
void gw_set_site(const gw_site *site);

/* Sets what a crash in the programs that this thread runs writes; NULL: nothing. Returns the previous
 * setting. */
const gw_crash_run *gw_set_crash_run(const gw_crash_run *run);
const gw_crash_run *gw_current_crash_run(void);
