#include "poison.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1, POISON = 0xff };

void gw_poison_fill(void *memory, int64_t bytes) { memset(memory, POISON, (size_t)bytes); }

/* The innermost LOOP that contains a task. */
static int64_t loop_of(const gw_program *p, int64_t task) {
    for (;;) {
        task = p->blocks[p->tasks[task].block].parent;
        if (task == NONE || p->tasks[task].kind == GW_LOOP)
            return task;
    }
}

static int64_t common_loop(const gw_program *p, int64_t a, int64_t b) {
    for (; a != NONE; a = loop_of(p, a))
        for (int64_t other = b; other != NONE; other = loop_of(p, other))
            if (a == other)
                return a;
    return NONE;
}

static int64_t planned_buffer(const gw_program *p, const gw_task *t, int64_t operand) {
    int64_t buffer = p->operands[t->first_operand + operand].buffer;
    return buffer >= 0 && p->buffers[buffer].storage == GW_ARENA ? buffer : NONE;
}

bool gw_poison_start(gw_poison *s, const gw_program *p, const gw_plan *plan, char *arena, gw_error *error) {
    size_t count = (size_t)p->buffer_count + 1;
    *s = (gw_poison){p,
                     plan,
                     arena,
                     calloc(count, sizeof *s->uses),
                     calloc(count, sizeof *s->left),
                     calloc(count, sizeof *s->home),
                     calloc(count, sizeof *s->touched)};
    if (!s->uses || !s->left || !s->home || !s->touched)
        return gw_fail_memory(error);
    for (int64_t task = 0; task < p->task_count; task++)
        for (int64_t i = 0; i < p->tasks[task].operand_count; i++) {
            int64_t buffer = planned_buffer(p, &p->tasks[task], i), loop = loop_of(p, task);
            if (buffer == NONE)
                continue;
            s->home[buffer] = s->uses[buffer]++ ? common_loop(p, s->home[buffer], loop) : loop;
            s->left[buffer] = s->uses[buffer];
        }
    return true;
}

void gw_poison_free(gw_poison *s) { free(s->uses), free(s->left), free(s->home), free(s->touched); }

static void fill(const gw_poison *s, int64_t buffer) {
    gw_poison_fill(s->arena + s->plan->offsets[buffer], s->plan->sizes[buffer]);
}

void gw_poison_before(gw_poison *s, int64_t task) {
    const gw_task *t = &s->program->tasks[task];
    for (int64_t i = 0; i < t->operand_count; i++) {
        int64_t buffer = planned_buffer(s->program, t, i);
        if (buffer == NONE || s->touched[buffer])
            continue;
        s->touched[buffer] = true;
        fill(s, buffer);
    }
}

/* Counts the uses of the task's buffers whose uses are all in the loop `home`, and fills those that it was
   the last to use. */
static void leave(gw_poison *s, int64_t task, int64_t home) {
    const gw_task *t = &s->program->tasks[task];
    for (int64_t i = 0; i < t->operand_count; i++) {
        int64_t buffer = planned_buffer(s->program, t, i);
        if (buffer != NONE && s->home[buffer] == home && --s->left[buffer] == 0 && s->touched[buffer])
            fill(s, buffer);
    }
}

static void leave_block(gw_poison *s, int64_t block, int64_t home) {
    const gw_program *p = s->program;
    const gw_block *b = &p->blocks[block];
    for (int64_t task = b->first; task < b->first + b->count; task++) {
        for (int64_t i = 0; i < p->tasks[task].blocks.count; i++)
            leave_block(s, p->tasks[task].blocks.at[i], home);
        leave(s, task, home);
    }
}

void gw_poison_after(gw_poison *s, int64_t task) {
    int64_t home = loop_of(s->program, task);
    if (s->program->tasks[task].kind ==
        GW_LOOP) /* the buffers that its iterations only read or carry are no longer needed */
        leave_block(s, s->program->tasks[task].blocks.at[0], home);
    leave(s, task, home);
}

void gw_poison_choice(gw_poison *s, int64_t task, int64_t selected) {
    const gw_list blocks = s->program->tasks[task].blocks;
    for (int64_t i = 0; i < blocks.count; i++)
        if (blocks.at[i] != selected)
            leave_block(s, blocks.at[i], loop_of(s->program, task));
    gw_poison_after(s, task);
}

void gw_poison_iteration(gw_poison *s, int64_t task) {
    for (int64_t buffer = 0; buffer < s->program->buffer_count; buffer++)
        if (s->uses[buffer] > 0 && s->home[buffer] == task) {
            s->left[buffer] = s->uses[buffer];
            s->touched[buffer] = false;
        }
}
