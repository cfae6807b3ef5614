#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "word_reader.h"

enum { MAX_ITEM_BYTES = 16 }; /* of an element: c128 */

static gw_binding *read_bindings(reader *r, const gw_program *p, int64_t count) {
    gw_binding *bindings = table(r, count, sizeof *bindings);
    for (int64_t i = 0; i < count && !r->failed; i++) {
        bindings[i].item =
            next_in(r, 1, MAX_ITEM_BYTES + 1, "an input or output has an invalid element size");
        bindings[i].dims =
            next_list(r, 0, p->shape_count, "a dimension of an input or output refers to no register");
        need(r, bindings[i].dims.count <= GW_MAX_RANK, "the rank of an input or output exceeds the limit");
    }
    return bindings;
}

static void check_instruction(reader *r, const gw_program *p, int64_t index) {
    const gw_instruction *i = &p->shape[index];
    if (i->code == GW_CONST)
        return;
    if (i->code == GW_DIM) {
        if (need(r, i->a >= 0 && i->a < p->input_count, "DIM refers to no input"))
            need(r, i->b >= 0 && i->b < p->inputs[i->a].dims.count, "DIM refers to no axis");
        return;
    }
    need(r, i->a >= 0 && i->a < index && i->b >= 0 && i->b < index,
         "a register is used before it is defined");
}

static void read_shape(reader *r, gw_program *p) {
    p->shape = (const gw_instruction *)(r->words + r->at);
    for (int64_t i = 0; i < p->shape_count && !r->failed; i++) {
        next_in(r, 0, GW_CODES, "unknown instruction");
        next(r), next(r);
        if (!r->failed)
            check_instruction(r, p, i);
    }
}

static bool is_input(const gw_buffer *b) { return b->storage == GW_INPUT || b->storage == GW_STATE; }
static bool is_planned(const gw_buffer *b) { return b->storage == GW_ARENA || b->storage == GW_SCRATCH; }

static void read_buffers(reader *r, gw_program *p) {
    int64_t total = 0;
    p->buffers = table(r, p->buffer_count, sizeof *p->buffers);
    p->conflict_starts = table(r, p->buffer_count + 1, sizeof *p->conflict_starts);
    for (int64_t i = 0; i < p->buffer_count && !r->failed; i++) {
        gw_buffer *b = &p->buffers[i];
        b->storage = next_in(r, 0, GW_STORAGES, "unknown kind of storage");
        b->size = next_in(r, 0, p->shape_count, "the size of a buffer refers to no register");
        b->index = next_in(r, 0, INT64_MAX, "the index of a buffer is negative");
        b->conflicts = next_list(r, 0, i, "a buffer lists a conflict with itself or a later buffer");
        need(r, !is_input(b) || b->index < p->input_count, "a buffer refers to no input");
        need(r, b->storage != GW_OUTPUT || b->index < p->output_count, "a buffer refers to no output");
        need(r, is_planned(b) || b->conflicts.count == 0,
             "a buffer outside the arena and scratch memory has conflicts");
        for (int64_t j = 0; j < b->conflicts.count && !r->failed; j++)
            need(r, is_planned(&p->buffers[b->conflicts.at[j]]),
                 "a conflict with a buffer outside the arena and scratch memory");
        if (b->storage == GW_STATE && !r->failed)
            p->inputs[b->index].is_state = true;
        total += b->conflicts.count;
    }
    p->conflicts = table(r, total, sizeof *p->conflicts);
    for (int64_t i = 0, at = 0; i < p->buffer_count && !r->failed; i++) {
        const gw_list *list = &p->buffers[i].conflicts;
        if (list->count > 0)
            memcpy(p->conflicts + at, list->at, (size_t)list->count * sizeof *list->at);
        p->conflict_starts[i + 1] = at += list->count;
    }
}

static void read_operand(reader *r, const gw_program *p, gw_operand *o) {
    o->buffer = next_in(r, GW_OPERAND_FUNCTION, p->buffer_count, "an operand refers to no buffer");
    if (o->buffer == GW_OPERAND_FUNCTION)
        o->offset = next_in(r, 0, p->kernel_count, "an operand refers to no kernel");
    else if (o->buffer == GW_OPERAND_NULL)
        o->offset = next_in(r, 0, 1, "an absent operand has an offset");
    else
        o->offset = next_in(r, 0, p->shape_count, "the offset of an operand refers to no register");
    need(r, r->failed || o->buffer < 0 || p->buffers[o->buffer].storage != GW_SCRATCH,
         "an operand is in scratch memory");
}

static bool is_memory(const gw_program *p, const gw_task *t, int64_t operand) {
    return operand < t->operand_count && p->operands[t->first_operand + operand].buffer >= 0;
}

static bool is_writable(const gw_program *p, const gw_task *t, int64_t operand) {
    if (!is_memory(p, t, operand))
        return false;
    int64_t storage = p->buffers[p->operands[t->first_operand + operand].buffer].storage;
    return storage == GW_OUTPUT || storage == GW_ARENA || storage == GW_STATE;
}

/* Whether an operand is in memory or absent. */
static bool is_optional(const gw_program *p, const gw_task *t, int64_t operand) {
    return is_memory(p, t, operand) || p->operands[t->first_operand + operand].buffer == GW_OPERAND_NULL;
}

static void check_loop(reader *r, const gw_program *p, const gw_task *t) {
    if (!need(r, t->operand_count == 3 && t->args.count <= 1 && t->blocks.count == 1,
              "a LOOP takes three operands, at most one argument and one block"))
        return;
    need(r, is_writable(p, t, 0) && t->writes.count == 1 && t->writes.at[0] == 0,
         "a LOOP does not write its iteration number");
    need(r, is_optional(p, t, 1) && is_optional(p, t, 2), "a LOOP's limit or condition is not in memory");
    need(r, t->args.count == 1 || is_memory(p, t, 1) || is_memory(p, t, 2),
         "a LOOP has neither a limit nor a condition");
}

static void check_task(reader *r, const gw_program *p, const gw_task *t, int64_t index) {
    for (int64_t i = 0; i < t->writes.count && !r->failed; i++)
        need(r, is_writable(p, t, t->writes.at[i]),
             "a task writes to an operand that is not an output, a state or in the arena");
    for (int64_t i = 0; i < t->after.count && !r->failed; i++)
        need(r, t->after.at[i] < index, "a task depends on itself or a later task");
    need(r, t->kind == GW_IF || t->kind == GW_LOOP || t->blocks.count == 0,
         "a task that is neither IF nor LOOP has blocks");
    need(r, t->kind == GW_LAUNCH || t->scratch < 0, "a task other than a launch has a scratch buffer");
    need(r, t->scratch < 0 || r->failed || p->buffers[t->scratch].storage == GW_SCRATCH,
         "the scratch buffer of a task is not in scratch memory");
    switch (t->kind) {
    case GW_LAUNCH:
        need(r, t->kernel >= 0 && t->kernel < p->kernel_count, "a launch refers to no kernel");
        need(r, t->grid >= 0, "a launch has no grid");
        break;
    case GW_COPY:
        need(r, (t->operand_count == 2 || t->operand_count == 3) && t->args.count == 1,
             "a COPY takes two or three operands and one argument");
        need(r, is_writable(p, t, 0) && is_memory(p, t, 1),
             "an operand of a COPY is not in memory or cannot be written");
        need(r, t->operand_count == 2 || is_memory(p, t, 2), "the row of a COPY is not in memory");
        break;
    case GW_IF:
        need(r, t->operand_count == 1 && is_memory(p, t, 0), "an IF takes one operand in memory");
        need(r, t->args.count == 0 ? t->blocks.count == 2 : t->args.count == 1 && t->blocks.count > 0,
             "an IF takes two blocks, or with an argument at least one");
        break;
    case GW_LOOP: check_loop(r, p, t); break;
    default: need(r, t->kernel >= 0 && t->kernel < p->host_count, "a host call refers to no function");
    }
}

/* Words of the shortest task: five values and the lengths of five lists. */
enum { TASK_WORDS = 10 };

static void read_tasks(reader *r, gw_program *p) {
    p->tasks = table(r, p->task_count, sizeof *p->tasks);
    p->operands = table(r, (r->count - r->at) / 2, sizeof *p->operands);
    for (int64_t i = 0; i < p->task_count && !r->failed; i++) {
        gw_task *t = &p->tasks[i];
        t->kind = next_in(r, 0, GW_KINDS, "unknown kind of task");
        t->kernel = next_in(r, -1, INT64_MAX, "the kernel of a task is invalid");
        t->grid = next_in(r, -1, p->shape_count, "the grid of a task refers to no register");
        t->scratch = next_in(r, -1, p->buffer_count, "the scratch of a task refers to no buffer");
        t->work = next_in(r, -1, p->shape_count, "the work of a task refers to no register");
        t->operand_count = next_count(r, 2);
        t->first_operand = p->operand_count;
        for (int64_t j = 0; j < t->operand_count && !r->failed; j++)
            read_operand(r, p, &p->operands[p->operand_count++]);
        t->writes = next_list(r, 0, t->operand_count, "a write refers to no operand");
        t->args = next_list(r, 0, p->shape_count, "an argument refers to no register");
        t->first_arg = p->arg_count;
        p->arg_count += t->args.count;
        t->blocks = next_list(r, 1, p->block_count, "a task refers to no block");
        t->after = next_list(r, 0, p->task_count, "a task depends on a task that does not exist");
        t->block = -1;
        if (!r->failed)
            check_task(r, p, t, i);
    }
}

static void read_blocks(reader *r, gw_program *p) {
    int64_t covered = 0;
    p->blocks = table(r, p->block_count, sizeof *p->blocks);
    for (int64_t i = 0; i < p->block_count && !r->failed; i++) {
        gw_block *b = &p->blocks[i];
        b->first = next_in(r, 0, p->task_count + 1, "a block starts past the last task");
        b->count = next_in(r, 0, p->task_count - b->first + 1, "a block ends past the last task");
        b->parent = -1;
        for (int64_t t = b->first; t < b->first + b->count && !r->failed; t++) {
            need(r, p->tasks[t].block < 0, "a task is in two blocks");
            p->tasks[t].block = i;
        }
        covered += b->count;
    }
    need(r, r->failed || covered == p->task_count, "a task is in no block");
}

/* Checks that every block except the entry belongs to one IF or LOOP, and is nested in the entry. */
static void check_tree(reader *r, gw_program *p) {
    for (int64_t i = 0; i < p->task_count && !r->failed; i++) {
        const gw_task *t = &p->tasks[i];
        for (int64_t j = 0; j < t->blocks.count && !r->failed; j++) {
            gw_block *b = &p->blocks[t->blocks.at[j]];
            need(r, b->parent < 0, "a block belongs to two tasks");
            b->parent = i;
        }
        for (int64_t j = 0; j < t->after.count && !r->failed; j++)
            need(r, p->tasks[t->after.at[j]].block == t->block, "a task depends on a task of another block");
    }
    for (int64_t i = 1; i < p->block_count && !r->failed; i++) {
        int64_t block = i, depth = 0;
        while (block > 0 && depth++ < GW_MAX_DEPTH)
            block = p->blocks[block].parent < 0 ? -1 : p->tasks[p->blocks[block].parent].block;
        need(r, block == 0, "a block is not reachable from the entry or nested too deeply");
    }
}

static void read_hosts(reader *r, gw_program *p) {
    p->hosts = table(r, p->host_count, sizeof *p->hosts);
    for (int64_t i = 0; i < p->host_count && !r->failed; i++) {
        gw_host_function *h = &p->hosts[i];
        h->count = next_count(r, 2);
        h->input_count = next_in(r, 0, h->count + 1, "a host function has more inputs than operands");
        h->operands = table(r, h->count, sizeof *h->operands);
        for (int64_t j = 0; j < h->count && !r->failed; j++) {
            h->operands[j].item = next_in(r, 0, MAX_ITEM_BYTES + 1,
                                          "an operand of a host function has an invalid element size");
            h->operands[j].dims = next_list(r, 0, p->shape_count,
                                            "a dimension of a host function's operand refers to no register");
            need(r, h->operands[j].dims.count <= GW_MAX_RANK,
                 "the rank of a host function's operand exceeds the limit");
        }
    }
}

static bool is_written(const gw_task *t, int64_t operand) {
    for (int64_t i = 0; i < t->writes.count; i++)
        if (t->writes.at[i] == operand)
            return true;
    return false;
}

static void check_host_calls(reader *r, const gw_program *p) {
    for (int64_t i = 0; i < p->task_count && !r->failed; i++) {
        const gw_task *t = &p->tasks[i];
        if (t->kind != GW_HOSTCALL)
            continue;
        const gw_host_function *h = &p->hosts[t->kernel];
        need(r, h->count == t->operand_count,
             "a host call and its function have different numbers of operands");
        for (int64_t j = 0; j < h->count && !r->failed; j++) {
            need(r, is_memory(p, t, j) == (h->operands[j].item > 0),
                 "an operand of a host call is present and absent in its function, or the reverse");
            need(r, j < h->input_count || !is_memory(p, t, j) || is_written(t, j),
                 "a host call does not write one of its outputs");
        }
    }
}

static int32_t base_of(const gw_program *p, int64_t buffer) {
    if (buffer < 0)
        return GW_BASE_NONE;
    switch (p->buffers[buffer].storage) {
    case GW_WEIGHT: return GW_BASE_WEIGHTS;
    case GW_INPUT:
    case GW_STATE: return (int32_t)(GW_BASE_BINDINGS + p->buffers[buffer].index);
    case GW_OUTPUT: return (int32_t)(GW_BASE_BINDINGS + p->input_count + p->buffers[buffer].index);
    default: return GW_BASE_ARENA;
    }
}

/* Makes the tables that the executor uses. */
static void index_program(reader *r, gw_program *p) {
    int64_t edges = 0, at = 0;
    p->bases = table(r, p->operand_count, sizeof *p->bases);
    p->io_operands = table(r, p->operand_count, sizeof *p->io_operands);
    for (int64_t i = 0; i < p->task_count; i++)
        edges += p->tasks[i].after.count;
    p->successors = table(r, edges, sizeof *p->successors);
    if (r->failed)
        return;
    for (int64_t i = 0; i < p->operand_count; i++) {
        p->bases[i] = base_of(p, p->operands[i].buffer);
        if (p->bases[i] >= GW_BASE_BINDINGS)
            p->io_operands[p->io_operand_count++] = i;
    }
    for (int64_t i = 0; i < p->input_count; i++) {
        p->inputs[i].first_dim = p->input_dim_count;
        p->input_dim_count += p->inputs[i].dims.count;
    }
    for (int64_t i = 0; i < p->task_count; i++)
        for (int64_t j = 0; j < p->tasks[i].after.count; j++)
            p->tasks[p->tasks[i].after.at[j]].successor_count++;
    for (int64_t i = 0; i < p->task_count; i++) {
        p->tasks[i].successor = at;
        at += p->tasks[i].successor_count;
        p->tasks[i].successor_count = 0;
    }
    for (int64_t i = 0; i < p->task_count; i++)
        for (int64_t j = 0; j < p->tasks[i].after.count; j++) {
            gw_task *before = &p->tasks[p->tasks[i].after.at[j]];
            p->successors[before->successor + before->successor_count++] = i;
        }
}

static void read_program(reader *r, gw_program *p) {
    need(r, next(r) == GW_MAGIC, "not an encoded program");
    need(r, next(r) == GW_VERSION, "unknown version");
    p->input_count = next_count(r, 2);
    p->output_count = next_count(r, 2);
    p->shape_count = next_count(r, 3);
    p->buffer_count = next_count(r, 4);
    p->task_count = next_count(r, TASK_WORDS);
    p->block_count = next_count(r, 2);
    p->kernel_count = next_in(r, 0, INT32_MAX, "the number of kernels is invalid");
    p->host_count = next_count(r, 2);
    need(r, r->failed || p->block_count > 0, "no entry block");
    need(r, p->input_count + p->output_count < INT32_MAX / 2, "too many inputs and outputs");
    if (r->failed)
        return;
    p->inputs = read_bindings(r, p, p->input_count);
    p->outputs = read_bindings(r, p, p->output_count);
    read_shape(r, p);
    read_buffers(r, p);
    if (!r->failed)
        read_tasks(r, p);
    if (!r->failed)
        read_blocks(r, p);
    if (!r->failed)
        check_tree(r, p);
    if (!r->failed)
        read_hosts(r, p);
    if (!r->failed)
        check_host_calls(r, p);
    need(r, r->failed || r->at == r->count, "extra data after the end");
    if (!r->failed)
        index_program(r, p);
}

gw_program *gw_program_decode(const void *bytes, size_t size, gw_error *error) {
    gw_program *p = calloc(1, sizeof *p);
    int64_t *words = malloc(size > 0 ? size : 1);
    if (!p || !words || size % 8 != 0) {
        if (p && words)
            gw_fail(error, GW_E_PROGRAM, "the encoded program has %zu bytes, not a multiple of 8", size);
        else
            gw_fail_memory(error);
        free(words);
        free(p);
        return NULL;
    }
    memcpy(words, bytes, size);
    p->words = words;
    reader r = {words, 0, (int64_t)(size / 8), error, false};
    read_program(&r, p);
    if (!r.failed)
        return p;
    gw_program_free(p);
    return NULL;
}

void gw_program_free(gw_program *p) {
    if (!p)
        return;
    for (int64_t i = 0; p->hosts && i < p->host_count; i++)
        free(p->hosts[i].operands);
    void *tables[] = {p->words,    p->inputs, p->outputs,    p->buffers,         p->tasks,
                      p->operands, p->bases,  p->successors, p->conflict_starts, p->conflicts,
                      p->blocks,   p->hosts,  p->io_operands};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        free(tables[i]);
    free(p);
}
