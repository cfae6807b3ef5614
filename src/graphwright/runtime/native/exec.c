#include "exec.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "crash.h"
#include "hosted.h"
#include "lock.h"
#include "poison.h"
#include "process.h"
#include "team.h"

enum { REGIONS = 8, NONE = -1, BAD_ROW = -1 };
enum { LONG_LOOP = 64, PATIENCE_NS = 50000000 };
enum { WORD = 64, WORDS = GW_MOST_CHUNKS / WORD };

/* A launch whose chunks are being handed out. */
typedef struct {
    _Alignas(128) atomic_uint_least64_t open[WORDS]; /* a bit for each chunk that is not handed out yet */
    atomic_int_least32_t share;                      /* chunks for each thread, unless others are faster */
    int64_t task;
    bool busy;                               /* under the run's lock */
    _Alignas(128) atomic_int_least32_t left; /* chunks that have not ended */
} region;

typedef struct {
    gw_team team;
    const gw_call *call;
    int64_t number;       /* of the run, in events */
    gw_hosted *hosted;    /* the threads of the run, where the host has spread it to its own; or NULL */
    pthread_mutex_t lock; /* guards the context's counters, the regions' `busy`, poison, the error */
    int64_t ready_first, ready_end; /* a ring: of a loop's tasks each is ready again in each run */
    gw_poison poison;
    gw_error *error;
    _Alignas(128) atomic_bool failed; /* what remains is skipped */
    atomic_bool finished;
    atomic_int asleep;   /* threads of the caller's */
    atomic_bool is_long; /* some loop has had LONG_LOOP runs */
    int64_t asked;       /* when the caller did so last */
    int words;           /* of a region that its chunks may take */
    region regions[REGIONS];
} run;

/* ---- failures ---- */

static const int64_t NOTHING_SAID[3] = {0, 0, -1};

static void fail_saying(run *r, gw_error_kind kind, int64_t task, int64_t code, const int64_t *said) {
    gw_lock(&r->lock);
    if (!atomic_load(&r->failed)) {
        r->error->a = task;
        r->error->b = code;
        memcpy(r->error->said, said, sizeof r->error->said);
        gw_fail(r->error, kind, "task %lld failed with code %lld", (long long)task, (long long)code);
    }
    atomic_store(&r->failed, true);
    pthread_mutex_unlock(&r->lock);
}

static void fail(run *r, gw_error_kind kind, int64_t task, int64_t code) {
    fail_saying(r, kind, task, code, NOTHING_SAID);
}

/* On the caller's thread. */
static void ask_whether_to_stop(run *r) {
    if (!r->call->interrupted || !atomic_load_explicit(&r->is_long, memory_order_relaxed))
        return;
    int64_t now = gw_now();
    if (r->asked == 0)
        r->asked = now;
    if (now - r->asked < PATIENCE_NS)
        return;
    r->asked = now;
    if (r->call->interrupted(r->call->host_data))
        fail(r, GW_E_HOST, NONE, 0);
}

/* ---- one task ---- */

static void *const *operands_of(const run *r, int64_t task) {
    return r->call->context->pointers + r->call->program->tasks[task].first_operand;
}

/* Its code. Where crashes are watched, one in the kernel says what this launch was. */
static int32_t call_kernel(const run *r, int64_t task, int64_t begin, int64_t end, void *scratch) {
    const gw_call *c = r->call;
    const gw_task *t = &c->program->tasks[task];
    const gw_kernel kernel = (gw_kernel)(uintptr_t)c->kernels[t->kernel];
    const int64_t *args = c->plan->args + t->first_arg;
    if (!c->sites)
        return kernel(operands_of(r, task), args, begin, end, scratch);
    const gw_site site = {.text = c->sites[task],
                          .args = args,
                          .registers = c->plan->registers,
                          .arg_count = t->args.count,
                          .register_count = c->program->shape_count,
                          .begin = begin,
                          .end = end,
                          .grid = c->plan->steps[task].grid,
                          .run = c->crash_run};
    gw_set_site(&site);
    const int32_t code = kernel(operands_of(r, task), args, begin, end, scratch);
    gw_set_site(NULL);
    return code;
}

static void launch(run *r, int64_t task, int64_t begin, int64_t end, int slot) {
    const gw_step *s = &r->call->plan->steps[task];
    char *scratch = s->scratch < 0 ? NULL : r->call->context->arena + s->scratch + slot * s->scratch_stride;
    if (r->call->poison && scratch)
        gw_poison_fill(scratch, s->scratch_stride);
    if (s->refused) {
        fail(r, GW_E_KERNEL, task, GW_REACHES_BEYOND);
        return;
    }
    int64_t said[3]; /* a kernel without scratch may say there what is wrong with its data */
    memcpy(said, NOTHING_SAID, sizeof said);
    const int32_t code = call_kernel(r, task, begin, end, scratch ? (void *)scratch : said);
    if (code != 0)
        fail_saying(r, GW_E_KERNEL, task, code, scratch ? NOTHING_SAID : said);
}

static void call_host(run *r, int64_t task) {
    if (r->call->host(r->call->host_data, r->call->plan, task, operands_of(r, task)) != 0)
        fail(r, GW_E_HOST, task, 0);
}

static int64_t number_at(const void *memory) {
    int64_t number;
    memcpy(&number, memory, sizeof number);
    return number;
}

/* The block that an IF runs. */
static int64_t chosen_block(const run *r, int64_t task) {
    const void *index = operands_of(r, task)[0];
    const gw_list blocks = r->call->program->tasks[task].blocks;
    int64_t bytes = r->call->plan->steps[task].bytes, last = blocks.count - 1;
    if (bytes == 1)
        return blocks.at[*(const unsigned char *)index ? 0 : 1];
    int32_t narrow;
    memcpy(&narrow, index, sizeof narrow);
    int64_t number = bytes == sizeof narrow ? narrow : number_at(index);
    return blocks.at[number >= 0 && number < last ? number : last];
}

/* Whether a LOOP has a run `number`; its body can read that then. */
static bool begin_run(run *r, int64_t task, int64_t number) {
    void *const *operands = operands_of(r, task);
    const gw_program *p = r->call->program;
    if (atomic_load(&r->failed) || p->blocks[p->tasks[task].blocks.at[0]].count == 0)
        return false;
    if (number >= r->call->plan->steps[task].most || (operands[1] && number >= number_at(operands[1])) ||
        (operands[2] && !*(const unsigned char *)operands[2]))
        return false;
    memcpy(operands[0], &number, sizeof number);
    if (number == LONG_LOOP)
        atomic_store(&r->is_long, true);
    return true;
}

/* Bytes of one place in pieces [begin, end). A copy within memory that overlaps is one piece. */
static void copy_pieces(char *target, const char *source, int64_t bytes, int64_t begin, int64_t end) {
    if (target < source + bytes && source < target + bytes) {
        if (begin == 0)
            memmove(target, source, (size_t)bytes);
        return;
    }
    int64_t first = begin * GW_PIECE, last = end * GW_PIECE < bytes ? end * GW_PIECE : bytes;
    if (first < last)
        memcpy(target + first, source + first, (size_t)(last - first));
}

static void copy(run *r, int64_t task, int64_t begin, int64_t end) {
    void *const *operands = operands_of(r, task);
    const gw_step *s = &r->call->plan->steps[task];
    char *target = operands[0];
    if (r->call->program->tasks[task].operand_count > 2) {
        int64_t row = number_at(operands[2]);
        if (row < 0 || row >= s->most) {
            fail(r, GW_E_KERNEL, task, BAD_ROW);
            return;
        }
        target += row * s->bytes;
    }
    if (s->bytes > 0)
        copy_pieces(target, operands[1], s->bytes, begin, end);
}

static void perform_units(run *r, int64_t task, int64_t begin, int64_t end, int slot) {
    switch (r->call->program->tasks[task].kind) {
    case GW_HOSTCALL: call_host(r, task); break;
    case GW_COPY: copy(r, task, begin, end); break;
    default: launch(r, task, begin, end, slot);
    }
}

static void subtract(int64_t *values, const int64_t *before) {
    for (int i = 0; i < GW_MOST_COUNTERS; i++)
        values[i] -= before[i];
}

/* As perform_units, with an event; a launch of no units has one as well. */
static void perform_recorded(run *r, int64_t task, int64_t begin, int64_t end, int slot) {
    gw_recording *recording = r->call->recording;
    gw_event piece = {
        .kind = GW_EVENT_PIECE, .slot = slot, .run = r->number, .id = task, .a = begin, .b = end};
    int64_t before[GW_MOST_COUNTERS];
    const bool timed = gw_wants_processor_time(recording), counted = gw_wants_counters(recording);
    if (timed)
        piece.processor = -gw_processor_time();
    if (counted)
        gw_count(recording, before);
    piece.start = gw_now();
    if (begin < end)
        perform_units(r, task, begin, end, slot);
    piece.end = gw_now();
    if (counted) {
        gw_count(recording, piece.counted);
        subtract(piece.counted, before);
    }
    if (timed)
        piece.processor += gw_processor_time();
    gw_record(recording, &piece);
}

/* Units [begin, end) of a task without blocks. */
static void perform(run *r, int64_t task, int64_t begin, int64_t end, int slot) {
    if (atomic_load_explicit(&r->failed, memory_order_relaxed))
        return;
    if (r->call->recording)
        perform_recorded(r, task, begin, end, slot);
    else if (begin < end)
        perform_units(r, task, begin, end, slot);
}

/* All of a task without blocks, on this thread. */
static void perform_alone(run *r, int64_t task, int slot) {
    perform(r, task, 0, r->call->plan->steps[task].grid, slot);
}

/* An IF or LOOP begins or ends. */
static void record_edge(const run *r, int64_t task, int kind, int slot) {
    if (!r->call->recording)
        return;
    gw_event edge = {.kind = kind, .slot = slot, .run = r->number, .id = task, .start = gw_now()};
    edge.end = edge.start;
    gw_record(r->call->recording, &edge);
}

/* ---- one thread: program order is an order of the edges ---- */

static void run_block(run *r, int64_t block, int slot);

static void run_if(run *r, int64_t task, int slot) {
    record_edge(r, task, GW_EVENT_OPEN, slot);
    int64_t taken = chosen_block(r, task);
    if (r->call->poison)
        gw_poison_choice(&r->poison, task, taken);
    run_block(r, taken, slot);
    record_edge(r, task, GW_EVENT_CLOSE, slot);
}

static void repeat_block(run *r, int64_t task, int slot) {
    for (int64_t number = 0; begin_run(r, task, number); number++) {
        if (r->call->poison)
            gw_poison_run(&r->poison, task);
        run_block(r, r->call->program->tasks[task].blocks.at[0], slot);
        if (slot == 0 && number % LONG_LOOP == 0)
            ask_whether_to_stop(r);
    }
}

static void run_loop(run *r, int64_t task, int slot) {
    record_edge(r, task, GW_EVENT_OPEN, slot);
    repeat_block(r, task, slot);
    record_edge(r, task, GW_EVENT_CLOSE, slot);
}

static void run_block(run *r, int64_t block, int slot) {
    const gw_program *p = r->call->program;
    const gw_block *b = &p->blocks[block];
    for (int64_t task = b->first; task < b->first + b->count; task++) {
        if (atomic_load_explicit(&r->failed, memory_order_relaxed))
            return;
        if (r->call->poison)
            gw_poison_before(&r->poison, task);
        switch (p->tasks[task].kind) {
        case GW_IF: run_if(r, task, slot); break;
        case GW_LOOP: run_loop(r, task, slot); break;
        default: perform_alone(r, task, slot);
        }
        if (r->call->poison && p->tasks[task].kind != GW_IF)
            gw_poison_after(&r->poison, task);
    }
}

/* ---- many threads ---- */

/* Something is new: who spins sees it, who sleeps is woken, workers that are elsewhere are asked for. */
static void announce(run *r, int wanted) {
    atomic_fetch_add(&r->team.version, 1);
    const int asleep = atomic_load(&r->asleep);
    if (asleep > 0)
        gw_futex_wake(&r->team.version, asleep);
    if (wanted > 0 && !r->call->spread)
        gw_team_offer(&r->team, wanted);
}

static int64_t after_in_ring(const run *r, int64_t at) {
    return at < r->call->program->task_count ? at + 1 : 0;
}

/* The lock is held. */
static void push(run *r, int64_t task) {
    r->call->context->ready[r->ready_end] = task;
    r->ready_end = after_in_ring(r, r->ready_end);
}

/* The lock is held. */
static int64_t pop(run *r) {
    if (r->ready_first == r->ready_end)
        return NONE;
    int64_t task = r->call->context->ready[r->ready_first];
    r->ready_first = after_in_ring(r, r->ready_first);
    return task;
}

/* How many of the ready tasks are worth another thread. The lock is held. */
static int heavy_ready(const run *r) {
    int count = 0;
    for (int64_t i = r->ready_first; i != r->ready_end; i = after_in_ring(r, i))
        count += r->call->plan->steps[r->call->context->ready[i]].heavy;
    return count;
}

/* The lock is held. */
static void open_block(run *r, int64_t block) {
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

/* Opens the body of a LOOP for a run, if there is one of that number. The lock is held. */
static bool open_run(run *r, int64_t task, int64_t number) {
    if (!begin_run(r, task, number))
        return false;
    if (r->call->poison)
        gw_poison_run(&r->poison, task);
    open_block(r, r->call->program->tasks[task].blocks.at[0]);
    return true;
}

/* Releases what waited for the task, and for the IFs and LOOPs that end with it. The lock is held. */
static void retire(run *r, int64_t task, int slot) {
    const gw_program *p = r->call->program;
    gw_context *c = r->call->context;
    for (;;) {
        const gw_task *t = &p->tasks[task];
        if (r->call->poison && t->kind != GW_IF)
            gw_poison_after(&r->poison, task);
        if (t->blocks.count > 0)
            record_edge(r, task, GW_EVENT_CLOSE, slot);
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
        if (p->tasks[task].kind == GW_LOOP && open_run(r, task, number_at(operands_of(r, task)[0]) + 1))
            return;
    }
}

/* After ready has grown: take one task, and tell of the others. Unlocks. */
static int64_t take_and_unlock(run *r) {
    int64_t task = pop(r);
    int wanted = heavy_ready(r);
    bool finished = atomic_load(&r->finished);
    pthread_mutex_unlock(&r->lock);
    if (wanted > 0 || finished)
        announce(r, wanted);
    return task;
}

static int64_t end_task(run *r, int64_t task, int slot) {
    gw_lock(&r->lock);
    retire(r, task, slot);
    return take_and_unlock(r);
}

static int64_t start_if(run *r, int64_t task, int slot) {
    bool failed = atomic_load(&r->failed); /* its operand may hold anything then */
    int64_t taken = failed ? NONE : chosen_block(r, task);
    gw_lock(&r->lock);
    if (!failed && r->call->poison)
        gw_poison_choice(&r->poison, task, taken);
    if (failed || r->call->program->blocks[taken].count == 0)
        retire(r, task, slot);
    else
        open_block(r, taken);
    return take_and_unlock(r);
}

/* One thread is enough for a loop of short tasks; poison has to be under the lock. */
static int64_t start_loop(run *r, int64_t task, int slot) {
    if (r->call->plan->steps[task].light && !r->call->poison) {
        repeat_block(r, task, slot);
        return end_task(r, task, slot);
    }
    gw_lock(&r->lock);
    if (!open_run(r, task, 0))
        retire(r, task, slot);
    return take_and_unlock(r);
}

/* Whether chunk `index` was still open; it is this thread's then. */
static bool claim(region *g, int index) {
    const uint64_t bit = (uint64_t)1 << index % WORD;
    return atomic_fetch_and_explicit(&g->open[index / WORD], ~bit, memory_order_acq_rel) & bit;
}

/* A chunk that is not handed out yet, or NONE. Of each launch a thread takes the same share first, since
   parts of what it reads lie in its cache where it wrote them; then it takes from the end of what others have
   left. */
static int take_chunk(const run *r, region *g, int slot) {
    const int share = atomic_load_explicit(&g->share, memory_order_relaxed);
    for (int index = slot * share; index < (slot + 1) * share; index++)
        if (atomic_load_explicit(&g->open[index / WORD], memory_order_relaxed) >> index % WORD & 1)
            if (claim(g, index))
                return index;
    for (int word = r->words; word-- > 0;)
        for (uint64_t open; (open = atomic_load_explicit(&g->open[word], memory_order_relaxed)) != 0;) {
            const int index = word * WORD + WORD - 1 - __builtin_clzll(open);
            if (claim(g, index))
                return index;
        }
    return NONE;
}

/* One chunk of any open region, if there is one; *next is a task that it made ready, or NONE. */
static bool help_region(run *r, region *g, int slot, int64_t *next) {
    const int64_t index = take_chunk(r, g, slot);
    if (index == NONE)
        return false;
    const int64_t task = g->task;
    const gw_step *s = &r->call->plan->steps[task];
    /* grid * index may overflow: split the quotient and the rest apart */
    int64_t each = s->grid / s->chunks, rest = s->grid % s->chunks;
    int64_t begin = each * index + rest * index / s->chunks;
    int64_t end = each * (index + 1) + rest * (index + 1) / s->chunks;
    perform(r, task, begin, end, slot);
    *next = NONE;
    if (atomic_fetch_sub_explicit(&g->left, 1, memory_order_acq_rel) > 1)
        return true;
    gw_lock(&r->lock);
    g->busy = false;
    retire(r, task, slot);
    *next = take_and_unlock(r);
    return true;
}

/* A place for the launch's chunks, or NULL: it then runs on this thread alone. */
static region *open_region(run *r, int64_t task) {
    const gw_step *s = &r->call->plan->steps[task];
    if (s->chunks < 2 || atomic_load(&r->failed))
        return NULL;
    region *found = NULL;
    gw_lock(&r->lock);
    for (int i = 0; i < REGIONS && !found; i++)
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
    for (int word = 0, chunks = s->chunks; chunks > 0; word++, chunks -= WORD) {
        const uint64_t open = chunks < WORD ? ((uint64_t)1 << chunks) - 1 : UINT64_MAX;
        atomic_store_explicit(&found->open[word], open, memory_order_release);
    }
    announce(r, s->chunks - 1);
    return found;
}

/* Starts a task; returns another that is ready, or NONE. */
static int64_t start(run *r, int64_t task, int slot) {
    if (r->call->program->tasks[task].blocks.count > 0)
        record_edge(r, task, GW_EVENT_OPEN, slot);
    if (r->call->poison) {
        gw_lock(&r->lock);
        gw_poison_before(&r->poison, task);
        pthread_mutex_unlock(&r->lock);
    }
    if (r->call->program->tasks[task].kind == GW_IF)
        return start_if(r, task, slot);
    if (r->call->program->tasks[task].kind == GW_LOOP)
        return start_loop(r, task, slot);
    region *g = open_region(r, task);
    if (!g) {
        perform_alone(r, task, slot);
        return end_task(r, task, slot);
    }
    int64_t next = NONE;
    while (next == NONE && help_region(r, g, slot, &next))
        ;
    return next;
}

static int64_t find_work(run *r, int slot, bool *found) {
    int64_t next = NONE;
    for (int i = 0; i < REGIONS; i++)
        if (help_region(r, &r->regions[i], slot, &next)) {
            *found = true;
            return next;
        }
    gw_lock(&r->lock);
    next = pop(r);
    pthread_mutex_unlock(&r->lock);
    *found = next != NONE;
    return next;
}

/* A host function has forked and this is the child: the workers and their chunks are not here. */
static bool deserted(run *r) {
    if (!r->team.listed || r->team.generation == gw_process_generation())
        return false;
    gw_fail(r->error, GW_E_MEMORY, "the process forked while the model was running");
    atomic_store(&r->failed, true);
    return true;
}

/* Works until the run has ended or, unless `patient`, there is nothing to do for a while: returns the
 * version. */
static uint32_t participate(run *r, int slot, bool patient) {
    int64_t task = NONE;
    for (;;) {
        bool found = true;
        uint32_t seen = atomic_load(&r->team.version);
        if (atomic_load(&r->finished))
            return seen;
        if (slot == 0)
            ask_whether_to_stop(r);
        task = task != NONE ? start(r, task, slot) : find_work(r, slot, &found);
        if (found || gw_spin(&r->team.version, seen))
            continue;
        if (!patient || deserted(r))
            return seen;
        atomic_fetch_add(&r->asleep, 1);
        if (r->hosted)
            gw_hosted_wait(r->hosted, slot, &r->team.version, seen);
        else
            gw_team_wait(&r->team, seen);
        atomic_fetch_sub(&r->asleep, 1);
    }
}

static uint32_t help(gw_team *team, int slot) { return participate((run *)team, slot, false); }

/* On a thread of the host's; whether it has taken part. The caller's ends when all others have. */
static bool join(void *data) {
    run *r = data;
    int slot = atomic_load(&r->finished) ? NONE : gw_hosted_enter(r->hosted);
    if (slot == NONE)
        return false;
    participate(r, slot, true);
    if (slot == 0)
        gw_hosted_close(r->hosted);
    gw_hosted_leave(r->hosted, slot);
    return true;
}

static void spread_run(run *r) {
    gw_hosted hosted;
    gw_hosted_open(&hosted, r->call->plan->threads);
    r->hosted = &hosted;
    r->call->spread(r->call->host_data, join, r);
}

static void run_graph(run *r) {
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

/* ---- a run ---- */

static void resolve(const gw_call *call, int64_t operand) {
    uintptr_t base = (uintptr_t)call->context->bases[call->program->bases[operand]];
    call->context->pointers[operand] = (void *)(base + (uintptr_t)call->plan->operand_offsets[operand]);
}

/* Addresses of all operands; those in the weights and the arena stay from run to run of a plan. */
static void resolve_operands(const gw_call *call) {
    gw_context *c = call->context;
    const gw_program *p = call->program;
    c->bases[GW_BASE_NONE] = NULL;
    c->bases[GW_BASE_WEIGHTS] = (void *)(uintptr_t)call->weights;
    c->bases[GW_BASE_ARENA] = c->arena;
    for (int64_t i = 0; i < p->input_count; i++)
        c->bases[GW_BASE_PORTS + i] = call->inputs[i];
    for (int64_t i = 0; i < p->output_count; i++)
        c->bases[GW_BASE_PORTS + p->input_count + i] = call->outputs[i];
    if (c->plan_serial == call->plan->serial) {
        for (int64_t i = 0; i < p->io_operand_count; i++)
            resolve(call, p->io_operands[i]);
        return;
    }
    for (int64_t i = 0; i < p->operand_count; i++)
        resolve(call, i);
    c->plan_serial = call->plan->serial;
}

static bool poison_start(run *r) {
    const gw_call *c = r->call;
    for (int64_t i = 0; i < c->program->output_count; i++)
        gw_poison_fill(c->outputs[i], c->plan->output_bytes[i]);
    return gw_poison_start(&r->poison, c->program, c->plan, c->context->arena, r->error);
}

static bool execute(run *r) {
    if (r->call->poison && !poison_start(r))
        return false;
    resolve_operands(r->call);
    const gw_plan *plan = r->call->plan;
    if (r->call->spread ? plan->shared : plan->parallel)
        run_graph(r);
    else
        run_block(r, 0, 0);
    return !atomic_load(&r->failed);
}

/* As execute, with an event. */
static bool execute_recorded(run *r) {
    const gw_plan *plan = r->call->plan;
    r->number = gw_next_run();
    gw_event event = {.kind = GW_EVENT_RUN,
                      .run = r->number,
                      .id = plan->serial,
                      .a = plan->arena_bytes,
                      .b = plan->threads,
                      .start = gw_now()};
    bool done = execute(r);
    event.end = gw_now();
    event.slot = done ? GW_OK : (int32_t)r->error->kind;
    gw_record(r->call->recording, &event);
    return done;
}

bool gw_execute(const gw_call *call, gw_error *error) {
    run r;
    memset(&r, 0, call->plan->parallel ? sizeof r : offsetof(run, regions));
    r.team.help = help;
    r.team.limit = call->plan->threads - 1;
    r.words = (gw_most_chunks(call->plan->threads) + WORD - 1) / WORD;
    r.call = call;
    r.error = error;
    pthread_mutex_init(&r.lock, NULL);
    bool done = call->recording ? execute_recorded(&r) : execute(&r);
    pthread_mutex_destroy(&r.lock);
    gw_poison_free(&r.poison);
    return done;
}
