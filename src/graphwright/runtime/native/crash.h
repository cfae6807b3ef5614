/* What a fatal signal in a kernel says before the process ends: which kernel of which model it was. */
#pragma once
#include <stdint.h>

/* A launch, for as long as its kernel runs. */
typedef struct {
    const char *text;    /* lines about the task, each with its end */
    const int64_t *args; /* of the kernel */
    int64_t arg_count, begin, end, grid;
} gw_site;

/* From now on, SIGSEGV, SIGBUS, SIGFPE and SIGILL in a kernel say where it was, then go to whoever handled
   them before. Whoever handles them from later on comes first. */
void gw_watch_crashes(void);

/* The launch that runs on this thread; NULL behind it. */
void gw_set_site(const gw_site *site);
