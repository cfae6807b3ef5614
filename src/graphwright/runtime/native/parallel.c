/* Runs the tasks of a plan on the caller's thread and on workers that join it. */
#include <string.h>

#include "hosted.h"
#include "lock.h"
#include "process.h"
#include "run.h"

/* ---- ready tasks ---- */

/* Tells other threads that there is new work: wakes those that sleep in this run, and asks the pool for
   `wanted` workers. */
static void announce(gw_run *r, int wanted) {
    atomic_fetch_add(&r->team.version, 1);
    const int asleep = atomic_load(&r->asleep);
    if (asleep > 0)
        gw_futex_wake(&r->team.version, asleep);
    if (wanted > 0 && !r->call->spread)
        gw_team_offer(&r->team, wanted);
}

static int64_t after_in_ring(const gw_run *r, int64_t at) {
    return at < r->call->program->task_count ? at + 1 : 0;
}

/* The lock is held. */
static void push(gw_run *r, int64_t task) {
    r->call->context->ready[r->ready_end] = task;
    r->ready_end = after_in_ring(r, r->ready_end);
}

/* The lock is held. */
static int64_t pop(gw_run *r) {
    if (r->ready_first == r->ready_end)
        return GW_NO_TASK;
    int64_t task = r->call->context->ready[r->ready_first];
    r->ready_first = after_in_ring(r, r->ready_first);
    return task;
}

/* The number of ready tasks that are worth waking a thread for. The lock is held. */
static int heavy_ready(const gw_run *r) {
    int count = 0;
    for (int64_t i = r->ready_first; i != r->ready_end; i = after_in_ring(r, i))
        count += r->call->plan->steps[r->call->context->ready[i]].heavy;
    return count;
}

/* Makes the tasks of a block without dependencies ready. The lock is held. */
static void open_block(gw_run *r, int64_t block) {
    const gw_program *p = r->call->program;
    gw_context *c = r->call->context;
    const gw_block *b = &p->blocks[block];
    c->left[block] = b->count;
    for (int64_t task = b->first; task < b->first + b->count; task++) {
        c->pending[task] = (int32_t)p->tasks[task].after.count;
        if (c->pending[task] == 0)
            push(r, task);
    }
}

/* Opens the body of a LOOP for iteration `number`, if the loop has one. The lock is held. */
static bool open_iteration(gw_run *r, int64_t task, int64_t number) {
    if (!gw_begin_iteration(r, task, number))
        return false;
    if (r->call->poison)
        gw_poison_iteration(&r->poison, task);
    open_block(r, r->call->program->tasks[task].blocks.at[0]);
    return true;
}

/* Makes tasks ready that waited for this one, and for the IFs and LOOPs that end with it. The lock is held.
 */
static void retire(gw_run *r, int64_t task, int slot) {
    const gw_program *p = r->call->program;
    gw_context *c = r->call->context;
    for (;;) {
        const gw_task *t = &p->tasks[task];
        if (r->call->poison && t->kind != GW_IF)
            gw_poison_after(&r->poison, task);
        if (t->blocks.count > 0)
            gw_record_edge(r, task, GW_EVENT_CLOSE, slot);
        for (int64_t i = 0; i < t->successor_count; i++) {
            int64_t successor = p->successors[t->successor + i];
            if (--c->pending[successor] == 0)
                push(r, successor);
        }
        if (--c->left[t->block] > 0)
            return;
        if (t->block == 0) {
            atomic_store(&r->finished, true);
            return;
        }
        task = p->blocks[t->block].parent;
        if (p->tasks[task].kind == GW_LOOP &&
            open_iteration(r, task, gw_read_i64(gw_task_operands(r, task)[0]) + 1))
            return;
    }
}

/* Takes a ready task, unlocks, and tells other threads about the rest. Returns GW_NO_TASK if none is ready.
 */
static int64_t take_and_unlock(gw_run *r) {
    int64_t task = pop(r);
    int wanted = heavy_ready(r);
    bool finished = atomic_load(&r->finished);
    pthread_mutex_unlock(&r->lock);
    if (wanted > 0 || finished)
        announce(r, wanted);
    return task;
}

/* ---- tasks ---- */

static int64_t end_task(gw_run *r, int64_t task, int slot) {
    gw_lock(&r->lock);
    retire(r, task, slot);
    return take_and_unlock(r);
}

static int64_t start_if(gw_run *r, int64_t task, int slot) {
    bool failed = atomic_load(&r->failed); /* then its operand may be undefined */
    int64_t selected = failed ? GW_NO_TASK : gw_selected_block(r, task);
    gw_lock(&r->lock);
    if (!failed && r->call->poison)
        gw_poison_choice(&r->poison, task, selected);
    if (failed || r->call->program->blocks[selected].count == 0)
        retire(r, task, slot);
    else
        open_block(r, selected);
    return take_and_unlock(r);
}

/* A loop of short tasks runs on one thread. With poison, each access to its state needs the lock. */
static int64_t start_loop(gw_run *r, int64_t task, int slot) {
    if (r->call->plan->steps[task].light && !r->call->poison) {
        gw_run_iterations(r, task, slot);
        return end_task(r, task, slot);
    }
    gw_lock(&r->lock);
    if (!open_iteration(r, task, 0))
        retire(r, task, slot);
    return take_and_unlock(r);
}

/* ---- chunks of a launch ---- */

/* Claims chunk `index` for this thread; false if another thread has it. */
static bool claim(gw_region *g, int index) {
    const uint64_t bit = (uint64_t)1 << index % GW_REGION_WORD;
    return atomic_fetch_and_explicit(&g->open[index / GW_REGION_WORD], ~bit, memory_order_acq_rel) & bit;
}

/* Claims a chunk; GW_NO_TASK if all are taken. A thread begins with the same share of each launch, because
   its cache may hold data of this share. Then it steals from the end of the shares of other threads. */
static int take_chunk(const gw_run *r, gw_region *g, int slot) {
    const int share = atomic_load_explicit(&g->share, memory_order_relaxed);
    for (int index = slot * share; index < (slot + 1) * share; index++)
        if (atomic_load_explicit(&g->open[index / GW_REGION_WORD], memory_order_relaxed) >>
                index % GW_REGION_WORD &
            1)
            if (claim(g, index))
                return index;
    for (int word = r->region_words; word-- > 0;)
        for (uint64_t open; (open = atomic_load_explicit(&g->open[word], memory_order_relaxed)) != 0;) {
            const int index = word * GW_REGION_WORD + GW_REGION_WORD - 1 - __builtin_clzll(open);
            if (claim(g, index))
                return index;
        }
    return GW_NO_TASK;
}

/* Runs one chunk of the region, if one is left; *next is a task that it made ready, or GW_NO_TASK. */
static bool help_region(gw_run *r, gw_region *g, int slot, int64_t *next) {
    const int64_t index = take_chunk(r, g, slot);
    if (index == GW_NO_TASK)
        return false;
    const int64_t task = g->task;
    const gw_step *s = &r->call->plan->steps[task];
    /* grid * index may overflow: multiply quotient and remainder separately */
    int64_t each = s->grid / s->chunks, rest = s->grid % s->chunks;
    int64_t begin = each * index + rest * index / s->chunks;
    int64_t end = each * (index + 1) + rest * (index + 1) / s->chunks;
    gw_perform(r, task, begin, end, slot);
    *next = GW_NO_TASK;
    if (atomic_fetch_sub_explicit(&g->left, 1, memory_order_acq_rel) > 1)
        return true;
    gw_lock(&r->lock);
    g->busy = false;
    retire(r, task, slot);
    *next = take_and_unlock(r);
    return true;
}

/* A region to hand out the launch's chunks; NULL if it should run on this thread alone. */
static gw_region *open_region(gw_run *r, int64_t task) {
    const gw_step *s = &r->call->plan->steps[task];
    if (s->chunks < 2 || atomic_load(&r->failed))
        return NULL;
    gw_region *found = NULL;
    gw_lock(&r->lock);
    for (int i = 0; i < GW_REGIONS && !found; i++)
        if (!r->regions[i].busy)
            found = &r->regions[i];
    if (found)
        found->busy = true;
    pthread_mutex_unlock(&r->lock);
    if (!found)
        return NULL;
    found->task = task;
    atomic_store_explicit(&found->left, s->chunks, memory_order_relaxed);
    const int threads = r->call->plan->threads;
    atomic_store_explicit(&found->share, s->chunks > threads ? s->chunks / threads : 1, memory_order_relaxed);
    for (int word = 0, chunks = s->chunks; chunks > 0; word++, chunks -= GW_REGION_WORD) {
        const uint64_t open = chunks < GW_REGION_WORD ? ((uint64_t)1 << chunks) - 1 : UINT64_MAX;
        atomic_store_explicit(&found->open[word], open, memory_order_release);
    }
    announce(r, s->chunks - 1);
    return found;
}

/* ---- threads ---- */

/* Starts a task and helps to run it; returns another task that is ready, or GW_NO_TASK. */
static int64_t start(gw_run *r, int64_t task, int slot) {
    if (r->call->program->tasks[task].blocks.count > 0)
        gw_record_edge(r, task, GW_EVENT_OPEN, slot);
    if (r->call->poison) {
        gw_lock(&r->lock);
        gw_poison_before(&r->poison, task);
        pthread_mutex_unlock(&r->lock);
    }
    if (r->call->program->tasks[task].kind == GW_IF)
        return start_if(r, task, slot);
    if (r->call->program->tasks[task].kind == GW_LOOP)
        return start_loop(r, task, slot);
    gw_region *g = open_region(r, task);
    if (!g) {
        gw_perform_alone(r, task, slot);
        return end_task(r, task, slot);
    }
    int64_t next = GW_NO_TASK;
    while (next == GW_NO_TASK && help_region(r, g, slot, &next))
        ;
    return next;
}

/* Helps a region, or takes a ready task. Returns a task to start, or GW_NO_TASK; `*found` if there was work.
 */
static int64_t find_work(gw_run *r, int slot, bool *found) {
    int64_t next = GW_NO_TASK;
    for (int i = 0; i < GW_REGIONS; i++)
        if (help_region(r, &r->regions[i], slot, &next)) {
            *found = true;
            return next;
        }
    gw_lock(&r->lock);
    next = pop(r);
    pthread_mutex_unlock(&r->lock);
    *found = next != GW_NO_TASK;
    return next;
}

/* Whether this is a child process that a host function forked, without the workers and their chunks. */
static bool lost_workers(gw_run *r) {
    if (!r->team.listed || r->team.generation == gw_process_generation())
        return false;
    gw_fail(r->error, GW_E_MEMORY, "the process forked while the model was running");
    atomic_store(&r->failed, true);
    return true;
}

/* Works until the run has ended or, unless `patient`, until there has been no work for a while. Returns the
   version that it saw last. */
static uint32_t participate(gw_run *r, int slot, bool patient) {
    int64_t task = GW_NO_TASK;
    for (;;) {
        bool found = true;
        uint32_t seen = atomic_load(&r->team.version);
        if (atomic_load(&r->finished))
            return seen;
        if (slot == 0)
            gw_poll_interrupt(r);
        task = task != GW_NO_TASK ? start(r, task, slot) : find_work(r, slot, &found);
        if (found || gw_spin(&r->team.version, seen))
            continue;
        if (!patient || lost_workers(r))
            return seen;
        atomic_fetch_add(&r->asleep, 1);
        if (r->hosted)
            gw_hosted_wait(r->hosted, slot, &r->team.version, seen);
        else
            gw_team_wait(&r->team, seen);
        atomic_fetch_sub(&r->asleep, 1);
    }
}

uint32_t gw_run_help(gw_team *team, int slot) { return participate((gw_run *)team, slot, false); }

/* Runs on a thread of the host; returns whether it took part. The caller's thread returns last. */
static bool join(void *data) {
    gw_run *r = data;
    int slot = atomic_load(&r->finished) ? GW_NO_TASK : gw_hosted_enter(r->hosted);
    if (slot == GW_NO_TASK)
        return false;
    participate(r, slot, true);
    if (slot == 0)
        gw_hosted_close(r->hosted);
    gw_hosted_leave(r->hosted, slot);
    return true;
}

static void spread_run(gw_run *r) {
    gw_hosted hosted;
    gw_hosted_open(&hosted, r->call->plan->threads);
    r->hosted = &hosted;
    r->call->spread(r->call->host_data, join, r);
}

void gw_run_parallel(gw_run *r) {
    if (r->call->program->blocks[0].count == 0)
        return;
    open_block(r, 0);
    if (r->call->spread) {
        spread_run(r);
        return;
    }
    participate(r, 0, true);
    gw_team_retract(&r->team);
}
