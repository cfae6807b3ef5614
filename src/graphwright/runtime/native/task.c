/* Runs one task: a launch or a chunk of it, a copy, a loop or a branch, and checks what it reads. */
#include <string.h>

#include "clock.h"
#include "crash.h"
#include "lock.h"
#include "run.h"

enum { BAD_ROW = -1 };
enum { POLL_NS = 50000000 };

/* ---- failures ---- */

static const int64_t NO_DETAILS[3] = {0, 0, -1};

static void fail_with_details(gw_run *r, gw_error_kind kind, int64_t task, int64_t code,
                              const int64_t *details) {
    gw_lock(&r->lock);
    if (!atomic_load(&r->failed)) {
        r->error->a = task;
        r->error->b = code;
        memcpy(r->error->details, details, sizeof r->error->details);
        gw_fail(r->error, kind, "task %lld failed with code %lld", (long long)task, (long long)code);
    }
    atomic_store(&r->failed, true);
    pthread_mutex_unlock(&r->lock);
}

void gw_run_fail(gw_run *r, gw_error_kind kind, int64_t task, int64_t code) {
    fail_with_details(r, kind, task, code, NO_DETAILS);
}

void gw_poll_interrupt(gw_run *r) {
    if (!r->call->interrupted || !atomic_load_explicit(&r->has_long_loop, memory_order_relaxed))
        return;
    int64_t now = gw_now();
    if (r->polled_at == 0)
        r->polled_at = now;
    if (now - r->polled_at < POLL_NS)
        return;
    r->polled_at = now;
    if (r->call->interrupted(r->call->host_data))
        gw_run_fail(r, GW_E_HOST, GW_NO_TASK, 0);
}

/* ---- launches ---- */

void *const *gw_task_operands(const gw_run *r, int64_t task) {
    return r->call->context->pointers + r->call->program->tasks[task].first_operand;
}

/* The kernel's return code. If crashes are reported, sets what a crash in the kernel reports. */
static int32_t call_kernel(const gw_run *r, int64_t task, int64_t begin, int64_t end, void *scratch) {
    const gw_call *c = r->call;
    const gw_task *t = &c->program->tasks[task];
    const gw_kernel kernel = (gw_kernel)(uintptr_t)c->kernels[t->kernel];
    const int64_t *args = c->plan->args + t->first_arg;
    if (!c->sites)
        return kernel(gw_task_operands(r, task), args, begin, end, scratch);
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
    const int32_t code = kernel(gw_task_operands(r, task), args, begin, end, scratch);
    gw_set_site(NULL);
    return code;
}

static void launch(gw_run *r, int64_t task, int64_t begin, int64_t end, int slot) {
    const gw_step *s = &r->call->plan->steps[task];
    char *scratch = s->scratch < 0 ? NULL : r->call->context->arena + s->scratch + slot * s->scratch_stride;
    if (r->call->poison && scratch)
        gw_poison_fill(scratch, s->scratch_stride);
    if (s->out_of_bounds) {
        gw_run_fail(r, GW_E_KERNEL, task, GW_OUT_OF_BOUNDS);
        return;
    }
    int64_t details[3]; /* a kernel without scratch may report here what is wrong with its data */
    memcpy(details, NO_DETAILS, sizeof details);
    const int32_t code = call_kernel(r, task, begin, end, scratch ? (void *)scratch : details);
    if (code != 0)
        fail_with_details(r, GW_E_KERNEL, task, code, scratch ? NO_DETAILS : details);
}

static void call_host(gw_run *r, int64_t task) {
    if (r->call->host(r->call->host_data, r->call->plan, task, gw_task_operands(r, task)) != 0)
        gw_run_fail(r, GW_E_HOST, task, 0);
}

int64_t gw_read_i64(const void *memory) {
    int64_t number;
    memcpy(&number, memory, sizeof number);
    return number;
}

/* ---- branches and loops ---- */

int64_t gw_selected_block(const gw_run *r, int64_t task) {
    const void *index = gw_task_operands(r, task)[0];
    const gw_list blocks = r->call->program->tasks[task].blocks;
    int64_t bytes = r->call->plan->steps[task].bytes, last = blocks.count - 1;
    if (bytes == 1)
        return blocks.at[*(const unsigned char *)index ? 0 : 1];
    int32_t narrow;
    memcpy(&narrow, index, sizeof narrow);
    int64_t number = bytes == sizeof narrow ? narrow : gw_read_i64(index);
    return blocks.at[number >= 0 && number < last ? number : last];
}

bool gw_begin_iteration(gw_run *r, int64_t task, int64_t number) {
    void *const *operands = gw_task_operands(r, task);
    const gw_program *p = r->call->program;
    if (atomic_load(&r->failed) || p->blocks[p->tasks[task].blocks.at[0]].count == 0)
        return false;
    if (number >= r->call->plan->steps[task].limit || (operands[1] && number >= gw_read_i64(operands[1])) ||
        (operands[2] && !*(const unsigned char *)operands[2]))
        return false;
    memcpy(operands[0], &number, sizeof number);
    if (number == GW_POLL_ITERATIONS)
        atomic_store(&r->has_long_loop, true);
    return true;
}

/* ---- copies ---- */

/* Copies chunks [begin, end) of `bytes`. If source and target overlap, the first chunk copies all. */
static void copy_chunks(char *target, const char *source, int64_t bytes, int64_t begin, int64_t end) {
    if (target < source + bytes && source < target + bytes) {
        if (begin == 0)
            memmove(target, source, (size_t)bytes);
        return;
    }
    int64_t first = begin * GW_COPY_CHUNK, last = end * GW_COPY_CHUNK < bytes ? end * GW_COPY_CHUNK : bytes;
    if (first < last)
        memcpy(target + first, source + first, (size_t)(last - first));
}

static void copy(gw_run *r, int64_t task, int64_t begin, int64_t end) {
    void *const *operands = gw_task_operands(r, task);
    const gw_step *s = &r->call->plan->steps[task];
    char *target = operands[0];
    if (r->call->program->tasks[task].operand_count > 2) {
        int64_t row = gw_read_i64(operands[2]);
        if (row < 0 || row >= s->limit) {
            gw_run_fail(r, GW_E_KERNEL, task, BAD_ROW);
            return;
        }
        target += row * s->bytes;
    }
    if (s->bytes > 0)
        copy_chunks(target, operands[1], s->bytes, begin, end);
}

/* ---- a task ---- */

static void perform_units(gw_run *r, int64_t task, int64_t begin, int64_t end, int slot) {
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

/* Like perform_units, but records an event, also for a launch without units. */
static void perform_recorded(gw_run *r, int64_t task, int64_t begin, int64_t end, int slot) {
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

void gw_perform(gw_run *r, int64_t task, int64_t begin, int64_t end, int slot) {
    if (atomic_load_explicit(&r->failed, memory_order_relaxed))
        return;
    if (r->call->recording)
        perform_recorded(r, task, begin, end, slot);
    else if (begin < end)
        perform_units(r, task, begin, end, slot);
}

void gw_perform_alone(gw_run *r, int64_t task, int slot) {
    gw_perform(r, task, 0, r->call->plan->steps[task].grid, slot);
}

void gw_record_edge(const gw_run *r, int64_t task, int kind, int slot) {
    if (!r->call->recording)
        return;
    gw_event edge = {.kind = kind, .slot = slot, .run = r->number, .id = task, .start = gw_now()};
    edge.end = edge.start;
    gw_record(r->call->recording, &edge);
}
