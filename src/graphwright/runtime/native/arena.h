/* The memory of a run, pooled between runs: its arena, pointers to operands, and the counters of the
 * scheduler. */
#pragma once
#include "plan.h"

typedef struct gw_arena {
    struct gw_arena *next; /* in the pool */
    char *memory;          /* 64-byte aligned */
    int64_t bytes;
} gw_arena;

/* A pool of arenas that no run uses, of one or more programs. A run takes the one that fits best. */
typedef struct {
    gw_arena *free;
    int count, bound;
    int64_t bytes; /* of all arenas, including those in use */
} gw_arena_pool;

typedef struct gw_context {
    struct gw_context *next; /* in the pool */
    gw_arena *held;          /* during a run */
    char *arena;             /* the memory of `held`; in the pool: of the last run */
    int64_t plan_serial;     /* the plan that `pointers` are for; 0 for none */
    void **pointers;         /* addresses of all operands of all tasks */
    int32_t *pending;        /* for each task: unfinished tasks that it depends on */
    int64_t *left;           /* for each block: unfinished tasks */
    int64_t *ready;          /* tasks that can start, each at most once */
    void **bases;
} gw_context;

/* A pool of contexts of one program that no run uses. */
typedef struct {
    gw_context *free;
    int count, bound;
    int64_t made; /* contexts that exist */
    gw_arena_pool *arenas;
} gw_context_pool;

/* The size of an arena for a plan that needs `bytes`, rounded up to whole pages; INT64_MAX if it is too
 * large. */
int64_t gw_arena_held(int64_t bytes);

/* A context with an arena that holds the plan; NULL if there is no memory. */
gw_context *gw_context_take(gw_context_pool *pool, const gw_program *program, const gw_plan *plan,
                            gw_error *error);
void gw_context_give(gw_context_pool *pool, gw_context *context);
/* Frees the contexts that no run uses. */
void gw_context_pool_clear(gw_context_pool *pool);
/* Frees the arenas that no run uses; returns their bytes. */
int64_t gw_arena_pool_clear(gw_arena_pool *pool);
