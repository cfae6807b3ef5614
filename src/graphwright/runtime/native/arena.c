#include "arena.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "process.h"

/* From here on arenas are mapped: zeroed on demand, given back whole, in huge pages where the system has
   them. */
enum { MAPPED = 1 << 20, HUGE_PAGE = 2 << 20, ALIGNMENT = 64 };

static int64_t round_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

static void release_arena(gw_context *c) {
    if (c->arena_bytes >= MAPPED)
        munmap(c->arena, (size_t)c->arena_bytes);
    else
        free(c->arena);
    c->arena = NULL;
    c->arena_bytes = 0;
}

/* Never none, so that pointers to empty buffers are not null. */
static bool grow_arena(gw_context *c, int64_t bytes) {
    bytes = bytes > 0 ? bytes : ALIGNMENT;
    if (bytes <= c->arena_bytes)
        return true;
    release_arena(c);
    c->plan_serial = 0;
    if (bytes > INT64_MAX - HUGE_PAGE)
        return false;
    if (bytes < MAPPED) {
        bytes = round_up(bytes, ALIGNMENT);
        c->arena = aligned_alloc(ALIGNMENT, (size_t)bytes);
    } else {
        bytes = round_up(bytes, bytes < HUGE_PAGE ? 4096 : HUGE_PAGE);
        void *mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        c->arena = mapped == MAP_FAILED ? NULL : mapped;
        if (c->arena)
            madvise(c->arena, (size_t)bytes, MADV_HUGEPAGE);
    }
    c->arena_bytes = c->arena ? bytes : 0;
    return c->arena != NULL;
}

static void free_context(gw_context *c) {
    if (!c)
        return;
    release_arena(c);
    free(c->pointers), free(c->pending), free(c->left), free(c->ready), free(c->bases);
    free(c);
}

static gw_context *new_context(const gw_program *p) {
    gw_context *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->pointers = calloc((size_t)p->operand_count + 1, sizeof *c->pointers);
    c->pending = calloc((size_t)p->task_count + 1, sizeof *c->pending);
    c->left = calloc((size_t)p->block_count + 1, sizeof *c->left);
    c->ready = calloc((size_t)p->task_count + 1, sizeof *c->ready);
    c->bases = calloc((size_t)(GW_BASE_PORTS + p->input_count + p->output_count), sizeof *c->bases);
    if (c->pointers && c->pending && c->left && c->ready && c->bases)
        return c;
    free_context(c);
    return NULL;
}

/* The smallest that holds the plan; else the largest, which grows. */
static gw_context **choose(gw_context_pool *pool, int64_t bytes) {
    gw_context **best = &pool->free;
    for (gw_context **at = &pool->free; *at; at = &(*at)->next) {
        int64_t size = (*at)->arena_bytes, chosen = (*best)->arena_bytes;
        bool fits = size >= bytes, chosen_fits = chosen >= bytes;
        if (fits == chosen_fits ? (fits ? size < chosen : size > chosen) : fits)
            best = at;
    }
    return best;
}

static gw_context *pop(gw_context_pool *pool, int64_t bytes) {
    gw_global_lock();
    gw_context **at = choose(pool, bytes), *context = *at;
    if (context) {
        *at = context->next;
        pool->count--;
    } else {
        pool->made++;
    }
    gw_global_unlock();
    return context;
}

/* Keeps the context for a later run; false if enough are kept. */
static bool push(gw_context_pool *pool, gw_context *context) {
    gw_global_lock();
    bool keep = context && pool->count < pool->bound;
    if (keep) {
        context->next = pool->free;
        pool->free = context;
        pool->count++;
    } else {
        pool->made--;
    }
    gw_global_unlock();
    return keep;
}

gw_context *gw_context_take(gw_context_pool *pool, const gw_program *program, const gw_plan *plan,
                            gw_error *error) {
    gw_context *context = pop(pool, plan->arena_bytes);
    if (!context)
        context = new_context(program);
    if (context && grow_arena(context, plan->arena_bytes))
        return context;
    gw_context_give(pool, context);
    gw_fail(error, GW_E_MEMORY, "no memory for an arena of %lld bytes", (long long)plan->arena_bytes);
    return NULL;
}

void gw_context_give(gw_context_pool *pool, gw_context *context) {
    if (!push(pool, context))
        free_context(context);
}

int64_t gw_context_pool_clear(gw_context_pool *pool) {
    int64_t bytes = 0;
    gw_global_lock();
    gw_context *context = pool->free;
    pool->free = NULL;
    pool->made -= pool->count;
    pool->count = 0;
    gw_global_unlock();
    while (context) {
        gw_context *next = context->next;
        bytes += context->arena_bytes;
        free_context(context);
        context = next;
    }
    return bytes;
}
