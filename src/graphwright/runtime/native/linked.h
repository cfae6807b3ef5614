/* A program linked with its kernels and weights, with its caches of plans and contexts. */
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

/* Decodes a program; its kernels must be set afterwards. `plans` is the size of its plan cache; `arenas` may
   be shared with other programs. Nothing is allocated if it fails. */
bool gw_linked_decode(gw_linked *linked, const void *words, size_t size, int plans, gw_arena_pool *arenas,
                      gw_error *error);
/* Sets kernel `number` to `symbol` of the shared object of `module`, with its extent function, which only
   kernels of plugins may lack. */
bool gw_linked_kernel(gw_linked *linked, int64_t number, void *object, const char *module, const char *symbol,
                      gw_error *error);
void gw_linked_weights(gw_linked *linked, const void *data, int64_t bytes);
/* The plan for inputs of these dims, which must be released; NULL on error. */
gw_plan *gw_linked_plan(gw_linked *linked, const int64_t *dims, int threads, gw_error *error);
/* Runs once. `call` has the plan, the inputs and outputs, and what else the caller wants of the run; its
   program, kernels, weights and context are set here. */
bool gw_linked_run(gw_linked *linked, gw_call *call, gw_error *error);
/* No run may be in progress. */
void gw_linked_free(gw_linked *linked);
