/* What a fatal signal in a kernel says and writes before the process ends: which kernel of which model it
   was, and with what the run can be had again. */
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

/* From now on, SIGSEGV, SIGBUS, SIGFPE and SIGILL in a kernel say where it was, then go to whoever handled
   them before. Whoever handles them from later on comes first. The first fault of a process is reported;
   faults of other threads wait until it is. */
void gw_watch_crashes(void);

/* The launch that runs on this thread; NULL behind it. */
void gw_set_site(const gw_site *site);

/* What a crash of the programs that this thread runs from now on writes; NULL: nothing. Returns what was set
   before. */
const gw_crash_run *gw_set_crash_run(const gw_crash_run *run);
const gw_crash_run *gw_current_crash_run(void);
