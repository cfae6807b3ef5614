#include "threads.h"

#include "clock.h"
#include "plan.h"
#include "pool.h"

/* Threads that sleep come within this time, unless other processes have their cores. So it is asked again
   after 1, 2, 4, ... runs, as long as fewer came than there are cores. */
enum { PATIENCE_NS = 1000000, LAST_ASKED = 64 };

typedef OrtStatus *parallel_for(const OrtKernelContext *, void (*)(void *, size_t), size_t, size_t, void *);

/* Calls function(user, 0 .. count - 1) on as many threads as are free. */
static void in_parallel(call *c, void (*function)(void *user, size_t index), int count, void *user) {
    OrtStatus *status =
        ((parallel_for *)c->api[PARALLEL_FOR])(c->context, function, (size_t)count, (size_t)count, user);
    if (status && !c->status)
        c->status = status;
    else if (status)
        ((void (*)(OrtStatus *))c->api[RELEASE_STATUS])(status);
}

int threads_at_most(void) {
    static atomic_int count;
    if (atomic_load(&count) == 0)
        atomic_store(&count, gw_pool_threads());
    return atomic_load(&count);
}

/* ---- a roll call: each thread waits until all have come, or none has for a while ---- */

typedef struct {
    int wanted;
    atomic_int came;
    atomic_llong last; /* when the last one came */
} roll_call;

static void answer(void *user, size_t index) {
    roll_call *r = user;
    (void)index;
    if (atomic_load(&r->last) && gw_now() - atomic_load(&r->last) > PATIENCE_NS)
        return; /* a thread that has answered has time for another call */
    atomic_store(&r->last, gw_now());
    atomic_fetch_add(&r->came, 1);
    while (atomic_load(&r->came) < r->wanted && gw_now() - atomic_load(&r->last) <= PATIENCE_NS)
        __builtin_ia32_pause();
}

static int called_over(call *c) {
    roll_call r = {threads_at_most(), 0, 0};
    in_parallel(c, answer, r.wanted, &r);
    int came = atomic_load(&r.came);
    return came > 1 ? came : 1;
}

static bool is_power_of_two(unsigned number) { return (number & (number - 1)) == 0; }

int threads_of(thread_pool *pool, call *c) {
    int known = atomic_load(&pool->count);
    if (known >= threads_at_most())
        return known;
    unsigned run = atomic_fetch_add(&pool->runs, 1) + 1;
    if (known > 0 && (run > LAST_ASKED || !is_power_of_two(run)))
        return known;
    int came = called_over(c);
    while (known < came && !atomic_compare_exchange_weak(&pool->count, &known, came))
        ;
    return known < came ? came : known;
}

/* ---- a run ---- */

typedef struct {
    void (*body)(void *data);
    void *data;
} spread_body;

static void run_body(void *user, size_t index) {
    const spread_body *b = user;
    (void)index;
    b->body(b->data);
}

void threads_spread(void *host, void (*body)(void *data), void *data) {
    const spreading *s = host;
    in_parallel(s->call, run_body, s->threads, &(spread_body){body, data});
}
