#include "plan.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "extent.h"
#include "offsets.h"
#include "shape.h"

/* Measured: waking a thread costs about 5 us, handing out a chunk 0.1 us. 8 to 16 chunks per region balance
   the load despite other processes; a long region gets more, as all threads wait for the last chunk. */
enum { HEAVY_NS = 8000, CHUNK_NS = 2500, LONG_CHUNK_NS = 100000, BRIEF_NS = 5000 };
enum { CHUNKS = 16, LONG_CHUNKS = 64 };
/* Measured: requesting threads from a host costs about 20 us, and they arrive after 50 us. */
enum { SHARED_NS = 100000 };

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

int gw_most_chunks(int threads) { return (int)larger(threads * 4, LONG_CHUNKS); }

static int32_t chunk_count(int64_t grid, int64_t work, int threads) {
    int64_t many = larger(larger(threads * 4, CHUNKS), smaller(work / LONG_CHUNK_NS, LONG_CHUNKS));
    int64_t chunks = smaller(smaller(many, work / CHUNK_NS), grid);
    return (int32_t)(chunks > threads ? chunks - chunks % threads : chunks);
}

typedef struct {
    const gw_program *program;
    const gw_links *links;
    gw_plan *plan;
    gw_error *error;
} maker;

static bool range_fits(int64_t offset, int64_t bytes, int64_t size) {
    return offset >= 0 && bytes >= 0 && offset <= size && bytes <= size - offset;
}

/* A size of a task. In a branch it may be negative, which counts as 0: at these sizes the branch is not
   taken, or rejects them. */
static int64_t size_in(const gw_task *t, int64_t size) { return size < 0 && t->block != 0 ? 0 : size; }

/* Computes the sizes of all buffers and checks that each one fits its memory. */
static bool size_buffers(const maker *m) {
    const gw_program *p = m->program;
    for (int64_t i = 0; i < p->buffer_count; i++) {
        const gw_buffer *b = &p->buffers[i];
        int64_t size = m->plan->sizes[i] = m->plan->registers[b->size];
        bool fits = size >= 0;
        if (b->storage == GW_INPUT || b->storage == GW_STATE)
            fits = fits && size <= m->plan->input_bytes[b->index];
        if (b->storage == GW_OUTPUT)
            fits = fits && size <= m->plan->output_bytes[b->index];
        if (b->storage == GW_WEIGHT)
            fits = fits && range_fits(b->index, size, m->links->weight_bytes);
        if (!fits)
            return gw_fail(m->error, GW_E_PLAN, "buffer %lld of %lld bytes does not fit its memory",
                           (long long)i, (long long)size);
    }
    return true;
}

static bool size_bindings(const maker *m, const gw_binding *bindings, int64_t count, int64_t *bytes,
                          const char *what) {
    for (int64_t i = 0; i < count; i++)
        if (!gw_dense_bytes(bindings[i].item, bindings[i].dims, m->plan->registers, &bytes[i]))
            return gw_fail(m->error, GW_E_PLAN, "%s %lld has a size that is negative or overflows", what,
                           (long long)i);
    return true;
}

static int64_t align(int64_t size) { return (size + GW_ALIGNMENT - 1) / GW_ALIGNMENT * GW_ALIGNMENT; }

/* Whether all input shapes are constant. */
static bool has_one_shape(const gw_program *p) {
    for (int64_t i = 0; i < p->input_count; i++)
        for (int64_t axis = 0; axis < p->inputs[i].dims.count; axis++)
            if (p->shape[p->inputs[i].dims.at[axis]].code != GW_CONST)
                return false;
    return true;
}

static bool place_buffers(const maker *m) {
    const gw_program *p = m->program;
    int64_t *sizes = calloc((size_t)p->buffer_count + 1, sizeof *sizes);
    if (!sizes)
        return gw_fail_memory(m->error);
    bool done = true;
    for (int64_t i = 0; i < p->buffer_count && done; i++) {
        int64_t storage = p->buffers[i].storage, size = m->plan->sizes[i];
        if (storage == GW_ARENA)
            sizes[i] = size;
        if (storage == GW_SCRATCH && (size > INT64_MAX - GW_ALIGNMENT ||
                                      __builtin_mul_overflow(align(size), m->plan->threads, &sizes[i])))
            done = gw_fail(m->error, GW_E_PLAN, "the scratch of buffer %lld overflows", (long long)i);
    }
    int64_t work = has_one_shape(p) ? GW_PLACING_ONCE : GW_PLACING_OFTEN;
    done = done && gw_plan_memory(p->buffer_count, sizes, p->conflict_starts, p->conflicts, work,
                                  m->plan->offsets, &m->plan->arena_bytes, m->error);
    free(sizes);
    for (int64_t i = 0; i < p->buffer_count && done; i++)
        if (p->buffers[i].storage != GW_ARENA && p->buffers[i].storage != GW_SCRATCH)
            m->plan->offsets[i] = -1;
    return done;
}

static bool place_operand(const maker *m, int64_t task, int64_t index, int64_t bytes) {
    const gw_program *p = m->program;
    const gw_operand *o = &p->operands[index];
    int64_t *resolved = &m->plan->operand_offsets[index];
    if (o->buffer < 0) {
        *resolved = o->buffer == GW_OPERAND_FUNCTION ? m->links->kernels[o->offset] : 0;
        return true;
    }
    int64_t offset = gw_operand_begin(m->plan, o);
    if (!range_fits(offset, bytes, m->plan->sizes[o->buffer]))
        return gw_fail(m->error, GW_E_PLAN,
                       "task %lld: %lld bytes at offset %lld exceed buffer %lld of %lld bytes",
                       (long long)task, (long long)bytes, (long long)offset, (long long)o->buffer,
                       (long long)m->plan->sizes[o->buffer]);
    const gw_buffer *b = &p->buffers[o->buffer];
    *resolved = offset + (b->storage == GW_WEIGHT  ? b->index
                          : b->storage == GW_ARENA ? m->plan->offsets[o->buffer]
                                                   : 0);
    return true;
}

/* The size of the condition of an IF: a bool, or an index of a block. */
static int64_t index_bytes(const maker *m, const gw_task *t) {
    return t->args.count > 0 ? m->plan->registers[t->args.at[0]] : 1;
}

/* The bytes of an operand that the runtime itself accesses, not a kernel. Rows are checked when they are
 * copied. */
static bool accessed_bytes(const maker *m, const gw_task *t, int64_t operand, int64_t *bytes) {
    const int64_t *registers = m->plan->registers, number = sizeof(int64_t);
    *bytes = 0;
    switch (t->kind) {
    case GW_COPY:
        if (operand == 2)
            *bytes = number;
        else if (operand == 1 || t->operand_count == 2)
            *bytes = size_in(t, registers[t->args.at[0]]);
        break;
    case GW_IF: *bytes = index_bytes(m, t); break;
    case GW_LOOP: *bytes = operand == 2 ? 1 : number; break;
    case GW_HOSTCALL: {
        const gw_host_operand *o = &m->program->hosts[t->kernel].operands[operand];
        return gw_dense_bytes(o->item, o->dims, registers, bytes);
    }
    }
    return true;
}

/* The maximum number of iterations of a LOOP; the number of rows that fit the target of a COPY to rows. */
static int64_t limit_of(const maker *m, const gw_task *t) {
    const int64_t *registers = m->plan->registers;
    if (t->kind == GW_LOOP)
        return t->args.count > 0 ? registers[t->args.at[0]] : INT64_MAX;
    if (t->kind != GW_COPY || t->operand_count < 3)
        return 0;
    const gw_operand *target = &m->program->operands[t->first_operand];
    int64_t bytes = registers[t->args.at[0]];
    int64_t room = m->plan->sizes[target->buffer] - registers[target->offset];
    return bytes > 0 ? room / bytes : INT64_MAX;
}

/* Whether a launch stays within its operands. A launch in a branch fails only when it runs, as the branch may
   never be taken at these sizes. */
static bool check_bounds(const maker *m, int64_t index) {
    if (gw_is_in_bounds(m->program, m->links, m->plan, index, m->error))
        return true;
    if (m->program->tasks[index].block == 0)
        return false;
    m->plan->steps[index].out_of_bounds = true;
    *m->error = (gw_error){0};
    return true;
}

static bool make_step(const maker *m, int64_t index) {
    const gw_task *t = &m->program->tasks[index];
    const int64_t *registers = m->plan->registers;
    gw_step *s = &m->plan->steps[index];
    for (int64_t i = 0; i < t->operand_count; i++) {
        int64_t bytes;
        if (!accessed_bytes(m, t, i, &bytes))
            return gw_fail(m->error, GW_E_PLAN, "task %lld: the size of operand %lld overflows",
                           (long long)index, (long long)i);
        if (!place_operand(m, index, t->first_operand + i, bytes))
            return false;
    }
    for (int64_t i = 0; i < t->args.count; i++)
        m->plan->args[t->first_arg + i] = registers[t->args.at[i]];
    s->bytes = t->kind == GW_COPY ? size_in(t, registers[t->args.at[0]])
               : t->kind == GW_IF ? index_bytes(m, t)
                                  : 0;
    if (t->kind == GW_IF && t->args.count > 0 && s->bytes != 4 && s->bytes != 8)
        return gw_fail(m->error, GW_E_PLAN, "task %lld has an index of %lld bytes", (long long)index,
                       (long long)s->bytes);
    s->limit = limit_of(m, t);
    s->scratch = t->scratch < 0 ? -1 : m->plan->offsets[t->scratch];
    s->scratch_stride = t->scratch < 0 ? 0 : align(m->plan->sizes[t->scratch]);
    s->grid = t->kind == GW_LAUNCH ? size_in(t, registers[t->grid])
              : t->kind == GW_COPY ? 1 + s->bytes / GW_COPY_CHUNK
                                   : 1;
    if (s->grid < 0)
        return gw_fail(m->error, GW_E_PLAN, "task %lld has a grid of %lld", (long long)index,
                       (long long)s->grid);
    if (s->grid > 0 && !check_bounds(m, index))
        return false;
    int64_t work = t->work < 0 ? INT64_MAX : registers[t->work];
    s->heavy = work >= HEAVY_NS && s->grid > 0 && m->plan->threads > 1 && t->blocks.count == 0;
    s->chunks = s->heavy ? chunk_count(s->grid, work, m->plan->threads) : 1;
    m->plan->parallel = m->plan->parallel || s->heavy;
    return true;
}

static bool is_light(const maker *m, int64_t block) {
    const gw_block *b = &m->program->blocks[block];
    for (int64_t i = b->first; i < b->first + b->count; i++) {
        const gw_list blocks = m->program->tasks[i].blocks;
        if (m->plan->steps[i].heavy)
            return false;
        for (int64_t j = 0; j < blocks.count; j++)
            if (!is_light(m, blocks.at[j]))
                return false;
    }
    return true;
}

/* Whether the estimated time of all tasks is known and short. */
static bool is_brief(const maker *m) {
    const gw_program *p = m->program;
    int64_t total = 0;
    for (int64_t i = 0; i < p->task_count; i++) {
        const gw_task *t = &p->tasks[i];
        int64_t work = t->work < 0 ? BRIEF_NS : m->plan->registers[t->work];
        if (t->kind == GW_HOSTCALL || work < 0 || work >= BRIEF_NS || (total += work) >= BRIEF_NS)
            return false;
    }
    return true;
}

/* Whether the block is in the body of a LOOP. */
static bool is_repeated(const gw_program *p, int64_t block) {
    for (int64_t task; (task = p->blocks[block].parent) >= 0; block = p->tasks[task].block)
        if (p->tasks[task].kind == GW_LOOP)
            return true;
    return false;
}

static bool is_shared(const maker *m) {
    const gw_program *p = m->program;
    int64_t total = 0;
    for (int64_t i = 0; i < p->task_count; i++) {
        const gw_task *t = &p->tasks[i];
        if (!m->plan->steps[i].heavy)
            continue;
        if (t->work < 0 || is_repeated(p, t->block))
            return true;
        total += smaller(m->plan->registers[t->work], SHARED_NS);
    }
    return total >= SHARED_NS;
}

/* Allocates a plan and its tables, zeroed, at once: a loop may make a plan in each iteration. */
static gw_plan *allocate(const gw_program *p) {
    const int64_t counts[] = {p->input_dim_count, p->shape_count, p->buffer_count, p->buffer_count,
                              p->operand_count,   p->arg_count,   p->input_count,  p->output_count};
    size_t bytes = sizeof(gw_plan) + (size_t)p->task_count * sizeof(gw_step);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        bytes += (size_t)counts[i] * sizeof(int64_t);
    gw_plan *plan = calloc(1, bytes);
    if (!plan)
        return NULL;
    int64_t **tables[] = {&plan->dims,        &plan->registers,       &plan->sizes,
                          &plan->offsets,     &plan->operand_offsets, &plan->args,
                          &plan->input_bytes, &plan->output_bytes};
    plan->bytes = (int64_t)bytes;
    plan->steps = (gw_step *)(plan + 1);
    int64_t *next = (int64_t *)(plan->steps + p->task_count);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; next += counts[i++])
        *tables[i] = next;
    return plan;
}

static bool fill_plan(const maker *m) {
    const gw_program *p = m->program;
    if (!gw_shape_evaluate(p, m->plan->dims, m->plan->registers, m->error) ||
        !size_bindings(m, p->inputs, p->input_count, m->plan->input_bytes, "input") ||
        !size_bindings(m, p->outputs, p->output_count, m->plan->output_bytes, "output") || !size_buffers(m) ||
        !place_buffers(m))
        return false;
    for (int64_t i = 0; i < p->task_count; i++)
        if (!make_step(m, i))
            return false;
    for (int64_t i = 0; i < p->task_count; i++)
        if (p->tasks[i].kind == GW_LOOP)
            m->plan->steps[i].light = is_light(m, p->tasks[i].blocks.at[0]);
    m->plan->brief = is_brief(m);
    m->plan->shared = is_shared(m);
    return true;
}

gw_plan *gw_plan_make(const gw_program *program, const gw_links *links, const int64_t *dims, int threads,
                      gw_error *error) {
    static atomic_int_least64_t serial;
    gw_plan *plan = allocate(program);
    if (!plan) {
        gw_fail_memory(error);
        return NULL;
    }
    if (program->input_dim_count > 0)
        memcpy(plan->dims, dims, (size_t)program->input_dim_count * sizeof *dims);
    plan->threads = threads;
    plan->serial = atomic_fetch_add(&serial, 1) + 1;
    plan->references = 1;
    if (fill_plan(&(maker){program, links, plan, error}))
        return plan;
    free(plan);
    return NULL;
}

bool gw_overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes > 0 && b_bytes > 0 && x < y + (uintptr_t)b_bytes && y < x + (uintptr_t)a_bytes;
}

bool gw_output_is_apart(const gw_program *program, const gw_plan *plan, int64_t output, void *const *inputs,
                        void *const *outputs) {
    const void *data = outputs[output];
    const int64_t bytes = plan->output_bytes[output];
    for (int64_t i = 0; i < program->input_count; i++)
        if (gw_overlap(data, bytes, inputs[i], plan->input_bytes[i]))
            return false;
    for (int64_t i = 0; i < output; i++)
        if (gw_overlap(data, bytes, outputs[i], plan->output_bytes[i]))
            return false;
    return true;
}
