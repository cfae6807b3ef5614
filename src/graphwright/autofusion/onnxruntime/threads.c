#include "threads.h"

#include "pool.h"

/* The first FIRST_RUNS runs are planned for all cores, and later one run in ONE_IN, which detects threads
   that joined no run before, because other processes kept their cores busy. */
enum { FIRST_RUNS = 32, ONE_IN = 32 };

typedef OrtStatus *parallel_for(const OrtKernelContext *, void (*)(void *, size_t), size_t, size_t, void *);

static int most_threads(void) {
    static atomic_int count;
    if (atomic_load(&count) == 0)
        atomic_store(&count, gw_pool_threads());
    return atomic_load(&count);
}

int threads_to_plan(thread_pool *pool) {
    unsigned run = atomic_fetch_add(&pool->runs, 1);
    int seen = atomic_load(&pool->seen);
    return run < FIRST_RUNS || run % ONE_IN == 0 || seen == 0 ? most_threads() : seen;
}

typedef struct {
    bool (*body)(void *data);
    void *data;
    atomic_int took_part;
} spread_body;

static void run_body(void *user, size_t index) {
    spread_body *b = user;
    (void)index;
    if (b->body(b->data))
        atomic_fetch_add(&b->took_part, 1);
}

/* Calls function(user, 0 .. count - 1) on all free threads. */
static void in_parallel(call *c, void (*function)(void *user, size_t index), int count, void *user) {
    OrtStatus *status =
        ((parallel_for *)c->api[PARALLEL_FOR])(c->context, function, (size_t)count, (size_t)count, user);
    if (status && !c->status)
        c->status = status;
    else if (status)
        ((void (*)(OrtStatus *))c->api[RELEASE_STATUS])(status);
}

static void note_threads(thread_pool *pool, int count) {
    int seen = atomic_load(&pool->seen);
    while (seen < count && !atomic_compare_exchange_weak(&pool->seen, &seen, count))
        ;
}

void threads_spread(void *host, bool (*body)(void *data), void *data) {
    const spreading *s = host;
    spread_body b = {body, data, 0};
    in_parallel(s->call, run_body, s->threads, &b);
    note_threads(s->pool, atomic_load(&b.took_part));
}
