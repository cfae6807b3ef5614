/* A program that can run: with its kernels, its weights, and what its runs keep. */
#pragma once
#include "exec.h"

typedef struct {
    gw_program *program;
    int64_t *kernels, *extents; /* addresses; of an extent 0: the kernel has none */
    gw_links links;
    const void *weights;
    gw_plan_cache plans;
    gw_context_pool contexts;
} gw_linked;

/* Decodes a program, whose kernels are 0 then. `plans`: how many it keeps; `arenas`: memory of its runs,
   which it may share with others. Nothing is held where it fails. */
bool gw_linked_decode(gw_linked *linked, const void *words, size_t size, int plans, gw_arena_pool *arenas,
                      gw_error *error);
/* The kernel of a number is `symbol` of a shared object, the code of `module`. It tells how far it reaches,
   unless it is a user's own. */
bool gw_linked_kernel(gw_linked *linked, int64_t number, void *object, const char *module, const char *symbol,
                      gw_error *error);
void gw_linked_weights(gw_linked *linked, const void *data, int64_t bytes);
/* The plan for inputs of these dims: release it. NULL on error. */
gw_plan *gw_linked_plan(gw_linked *linked, const int64_t *dims, int threads, gw_error *error);
/* One run. `spread` as in gw_call, with its host's data; NULL: workers of the process help. */
bool gw_linked_run(gw_linked *linked, const gw_plan *plan, void *const *inputs, void *const *outputs,
                   gw_spread spread, void *host_data, gw_error *error);
/* No run may be under way. */
void gw_linked_free(gw_linked *linked);
