#include "arena.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "clock.h"
#include "events.h"
#include "process.h"

/* Arenas of at least this size are mapped: zeroed on demand, released as a whole, in huge pages if the system
   has them. */
enum { MAPPED = 1 << 20, HUGE_PAGE = 2 << 20, ALIGNMENT = 64 };

static int64_t round_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

static void release_memory(gw_arena *a) {
    if (a->bytes >= MAPPED)
        munmap(a->memory, (size_t)a->bytes);
    else
        free(a->memory);
    a->memory = NULL;
    a->bytes = 0;
}

/* Records that the arenas of a pool now have `bytes` in total, `more` than before. */
static void note_bytes(int64_t more, int64_t bytes) {
    if (more == 0 || !gw_is_recording())
        return;
    const int64_t now = gw_now();
    gw_note(&(gw_event){.kind = GW_EVENT_MEMORY, .start = now, .end = now, .a = more, .b = bytes});
}

/* At least one unit, so that pointers to empty buffers are not null. */
int64_t gw_arena_held(int64_t bytes) {
    bytes = bytes > 0 ? bytes : ALIGNMENT;
    if (bytes > INT64_MAX - HUGE_PAGE)
        return INT64_MAX;
    return round_up(bytes, bytes < MAPPED ? ALIGNMENT : bytes < HUGE_PAGE ? 4096 : HUGE_PAGE);
}

static bool grow(gw_arena *a, int64_t bytes) {
    if (bytes <= a->bytes && a->bytes > 0)
        return true;
    release_memory(a);
    bytes = gw_arena_held(bytes);
    if (bytes == INT64_MAX)
        return false;
    if (bytes < MAPPED) {
        a->memory = aligned_alloc(ALIGNMENT, (size_t)bytes);
    } else {
        void *mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        a->memory = mapped == MAP_FAILED ? NULL : mapped;
        if (a->memory)
            madvise(a->memory, (size_t)bytes, MADV_HUGEPAGE);
    }
    a->bytes = a->memory ? bytes : 0;
    return a->memory != NULL;
}

/* Prefers the arena of the previous run, then the smallest one, of the arenas that are large enough. If none
   is, returns the largest, which the caller enlarges. */
static gw_arena **choose(gw_arena_pool *pool, int64_t bytes, const char *last) {
    gw_arena **best = &pool->free;
    for (gw_arena **at = &pool->free; *at; at = &(*at)->next) {
        int64_t size = (*at)->bytes, chosen = (*best)->bytes;
        bool fits = size >= bytes, chosen_fits = chosen >= bytes;
        if (fits && (*at)->memory == last)
            return at;
        if (fits == chosen_fits ? (fits ? size < chosen : size > chosen) : fits)
            best = at;
    }
    return best;
}

/* Keeps the arena for a later run, or frees it if enough are kept. */
static void give_arena(gw_arena_pool *pool, gw_arena *arena) {
    gw_global_lock();
    bool keep = pool->count < pool->bound;
    if (keep) {
        arena->next = pool->free;
        pool->free = arena;
        pool->count++;
    } else {
        pool->bytes -= arena->bytes;
    }
    int64_t all = pool->bytes;
    gw_global_unlock();
    if (!keep) {
        note_bytes(-arena->bytes, all);
        release_memory(arena);
        free(arena);
    }
}

static gw_arena *take_arena(gw_arena_pool *pool, int64_t bytes, const char *last) {
    gw_global_lock();
    gw_arena **at = choose(pool, bytes, last), *arena = *at;
    if (arena) {
        *at = arena->next;
        pool->count--;
    }
    gw_global_unlock();
    if (!arena && !(arena = calloc(1, sizeof *arena)))
        return NULL;
    int64_t before = arena->bytes;
    bool grown = grow(arena, bytes);
    if (arena->bytes != before) {
        gw_global_lock();
        int64_t all = pool->bytes += arena->bytes - before;
        gw_global_unlock();
        note_bytes(arena->bytes - before, all);
    }
    if (grown)
        return arena;
    free(arena);
    return NULL;
}

static void free_context(gw_context *c) {
    if (!c)
        return;
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
    c->bases = calloc((size_t)(GW_BASE_BINDINGS + p->input_count + p->output_count), sizeof *c->bases);
    if (c->pointers && c->pending && c->left && c->ready && c->bases)
        return c;
    free_context(c);
    return NULL;
}

static gw_context *pop(gw_context_pool *pool) {
    gw_global_lock();
    gw_context *context = pool->free;
    if (context) {
        pool->free = context->next;
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
    gw_context *context = pop(pool);
    if (!context)
        context = new_context(program);
    if (context)
        context->held = take_arena(pool->arenas, plan->arena_bytes, context->arena);
    if (!context || !context->held) {
        gw_context_give(pool, context);
        gw_fail(error, GW_E_MEMORY, "no memory for an arena of %lld bytes", (long long)plan->arena_bytes);
        return NULL;
    }
    if (context->held->memory != context->arena)
        context->plan_serial = 0;
    context->arena = context->held->memory;
    return context;
}

void gw_context_give(gw_context_pool *pool, gw_context *context) {
    if (context && context->held)
        give_arena(pool->arenas, context->held);
    if (context)
        context->held = NULL;
    if (!push(pool, context))
        free_context(context);
}

void gw_context_pool_clear(gw_context_pool *pool) {
    gw_global_lock();
    gw_context *context = pool->free;
    pool->free = NULL;
    pool->made -= pool->count;
    pool->count = 0;
    gw_global_unlock();
    while (context) {
        gw_context *next = context->next;
        free_context(context);
        context = next;
    }
}

int64_t gw_arena_pool_clear(gw_arena_pool *pool) {
    int64_t bytes = 0;
    gw_global_lock();
    gw_arena *arena = pool->free;
    pool->free = NULL;
    pool->count = 0;
    for (gw_arena *each = arena; each; each = each->next)
        bytes += each->bytes;
    int64_t all = pool->bytes -= bytes;
    gw_global_unlock();
    note_bytes(-bytes, all);
    while (arena) {
        gw_arena *next = arena->next;
        release_memory(arena);
        free(arena);
        arena = next;
    }
    return bytes;
}
