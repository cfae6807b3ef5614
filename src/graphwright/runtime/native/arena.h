/* Memory of one run, kept from run to run: the arena, pointers to the operands, the scheduler's counters. */
#pragma once
#include "plan.h"

typedef struct gw_context {
    struct gw_context *next; /* in the pool */
    char *arena;             /* 64-byte aligned */
    int64_t arena_bytes;
    int64_t plan_serial; /* of the plan that `pointers` were made for; 0 for none */
    void **pointers;     /* of all operands of all tasks */
    int32_t *pending;    /* of each task: those of its `after` that have not ended */
    int64_t *left;       /* of each block: tasks that have not ended */
    int64_t *ready;      /* tasks to start, each once at most */
    void **bases;
} gw_context;

/* Contexts that no run uses, of one program. */
typedef struct {
    gw_context *free;
    int count, bound;
    int64_t made; /* contexts that exist */
} gw_context_pool;

/* A context whose arena holds the plan; NULL if there is no memory. */
gw_context *gw_context_take(gw_context_pool *pool, const gw_program *program, const gw_plan *plan,
                            gw_error *error);
void gw_context_give(gw_context_pool *pool, gw_context *context);
/* Frees the contexts that no run uses; the bytes of their arenas. */
int64_t gw_context_pool_clear(gw_context_pool *pool);
