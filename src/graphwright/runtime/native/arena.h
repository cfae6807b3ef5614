/* Memory of one run, kept from run to run: the arena, pointers to the operands, the scheduler's counters. */
#pragma once
#include "plan.h"

typedef struct gw_arena {
    struct gw_arena *next; /* in the pool */
    char *memory;          /* 64-byte aligned */
    int64_t bytes;
} gw_arena;

/* Arenas that no run uses, of one program or of several: what runs takes the one that fits best. */
typedef struct {
    gw_arena *free;
    int count, bound;
    int64_t bytes; /* of all that exist */
} gw_arena_pool;

typedef struct gw_context {
    struct gw_context *next; /* in the pool */
    gw_arena *held;          /* during a run */
    char *arena;             /* its memory; in the pool: that of the last run */
    int64_t plan_serial;     /* of the plan that `pointers` were made for; 0 for none */
    void **pointers;         /* of all operands of all tasks */
    int32_t *pending;        /* of each task: those of its `after` that have not ended */
    int64_t *left;           /* of each block: tasks that have not ended */
    int64_t *ready;          /* tasks to start, each once at most */
    void **bases;
} gw_context;

/* Contexts that no run uses, of one program. */
typedef struct {
    gw_context *free;
    int count, bound;
    int64_t made; /* contexts that exist */
    gw_arena_pool *arenas;
} gw_context_pool;

/* What an arena for a plan that needs so many bytes takes of the system: whole pages; INT64_MAX if it is too
   large. */
int64_t gw_arena_held(int64_t bytes);

/* A context with an arena that holds the plan; NULL if there is no memory. */
gw_context *gw_context_take(gw_context_pool *pool, const gw_program *program, const gw_plan *plan,
                            gw_error *error);
void gw_context_give(gw_context_pool *pool, gw_context *context);
/* Frees the contexts that no run uses. */
void gw_context_pool_clear(gw_context_pool *pool);
/* Frees the arenas that no run uses; their bytes. */
int64_t gw_arena_pool_clear(gw_arena_pool *pool);
