#include "extent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_OPERANDS = 30 };

/* A launch, or a kernel that the kernel of a launch calls. */
typedef struct {
    const gw_program *program;
    const gw_links *links;
    const gw_plan *plan;
    int64_t index; /* of the task */
    gw_error *error;
    const int64_t *args;
    int64_t arg_count, first_operand, operand_count;
    int64_t inside; /* bits: operands in the scratch memory of its caller */
    int64_t *reach; /* of the task's operands, to be filled; or NULL */
} launch;

static const gw_operand *operand_of(const launch *l, int64_t k) {
    return &l->program->operands[l->first_operand + k];
}

static void keep_reach(const launch *l, int64_t k, double end) {
    int64_t *reach = &l->reach[l->first_operand + k - l->program->tasks[l->index].first_operand];
    if ((double)*reach < end)
        *reach = (int64_t)end;
}

static bool is_inside(const launch *l, int64_t k) { return k < 64 && l->inside >> k & 1; }

/* Whether accesses up to `ends` bytes stay within the operands [first, last). */
static bool holds(const launch *l, int64_t first, int64_t last, const double *ends) {
    for (int64_t k = first; k < last; k++, ends++) {
        const gw_operand *o = operand_of(l, k);
        if (o->buffer < 0 && !(*ends <= 0) && !is_inside(l, k))
            return gw_fail(l->error, GW_E_PLAN, "task %lld needs operand %lld, which is absent",
                           (long long)l->index, (long long)k);
        if (o->buffer < 0)
            continue;
        double room = (double)l->plan->sizes[o->buffer] - (double)gw_operand_begin(l->plan, o);
        if (!(fabs(*ends) <= room))
            return gw_fail(l->error, GW_E_PLAN, "task %lld accesses %g bytes of operand %lld, which has %g",
                           (long long)l->index, fabs(*ends), (long long)k, room);
        if (l->reach)
            keep_reach(l, k, fabs(*ends));
    }
    return true;
}

/* The position of the epilogue among the operands; -1 if there is none. */
static int64_t hook_of(const launch *l) {
    for (int64_t k = 0; k < l->operand_count; k++)
        if (operand_of(l, k)->buffer == GW_OPERAND_FUNCTION)
            return k;
    return -1;
}

static bool fail_arguments(const launch *l) {
    return gw_fail(l->error, GW_E_PLAN, "task %lld: its kernel does not support these arguments",
                   (long long)l->index);
}

static bool takes(const launch *l, gw_extent extent, double *out, int64_t hook) {
    out[GW_EXTENT_HOOK] = hook >= 0;
    return extent && extent(l->args, l->arg_count, l->operand_count, out) == 0;
}

static gw_extent extent_of_hook(const launch *l, int64_t hook) {
    return (gw_extent)(uintptr_t)l->links->extents[operand_of(l, hook)->offset];
}

static bool hook_stays(const launch *l, double *out, int64_t hook) {
    int64_t args = (int64_t)out[GW_EXTENT_ARGS], operands = l->operand_count - hook - 1;
    memset(out + GW_EXTENT_FIRST, 0, (size_t)operands * sizeof *out);
    gw_extent extent = extent_of_hook(l, hook);
    if (!extent || extent(l->args + args, l->arg_count - args, operands, out) != 0)
        return fail_arguments(l);
    return holds(l, hook + 1, l->operand_count, out + GW_EXTENT_FIRST);
}

/* Checks the operands of a kernel, whose extent function wrote `out`, and of its epilogue. */
static bool operands_hold(const launch *l, double *out, int64_t hook) {
    int64_t own = out[GW_EXTENT_ARGS] > 0 ? (int64_t)out[GW_EXTENT_HOOK] : l->operand_count;
    if ((hook >= 0 && hook != own) || (own < l->operand_count && operand_of(l, own)->buffer >= 0))
        return fail_arguments(l);
    return holds(l, 0, own, out + GW_EXTENT_FIRST) && (hook < 0 || hook_stays(l, out, hook));
}

/* Checks a kernel that the kernel of `whole` calls and describes in `of`. */
static bool part_stays(const launch *whole, const double *of) {
    launch l = *whole;
    l.args += (int64_t)of[GW_PART_FIRST_ARG];
    l.arg_count = (int64_t)of[GW_PART_ARGS];
    l.first_operand += (int64_t)of[GW_PART_FIRST_OPERAND];
    l.operand_count = (int64_t)of[GW_PART_OPERANDS];
    l.inside = (int64_t)of[GW_PART_INSIDE];
    double out[GW_EXTENT_FIRST + FEW_OPERANDS] = {0};
    if (l.operand_count > FEW_OPERANDS)
        return fail_arguments(&l);
    int64_t hook = hook_of(&l);
    if (!takes(&l, (gw_extent)(uintptr_t)of[GW_PART_EXTENT], out, hook))
        return fail_arguments(&l);
    return operands_hold(&l, out, hook);
}

static bool launch_stays(const launch *l, double *out) {
    const gw_task *t = &l->program->tasks[l->index];
    int64_t grid = l->plan->steps[l->index].grid, hook = hook_of(l);
    double scratch = t->scratch < 0 ? 0 : (double)l->plan->sizes[t->scratch];
    out[GW_EXTENT_GRID] = (double)grid;
    if (!takes(l, (gw_extent)(uintptr_t)l->links->extents[t->kernel], out, hook))
        return fail_arguments(l);
    if (!((double)grid <= out[GW_EXTENT_GRID]) || !(out[GW_EXTENT_SCRATCH] <= scratch))
        return gw_fail(l->error, GW_E_PLAN,
                       "task %lld has a grid of %lld and %g bytes of scratch, but its kernel allows a grid "
                       "of %g and needs %g",
                       (long long)l->index, (long long)grid, scratch, out[GW_EXTENT_GRID],
                       out[GW_EXTENT_SCRATCH]);
    if (out[GW_EXTENT_ARGS] >= 0)
        return operands_hold(l, out, hook);
    const double *part = out + GW_EXTENT_FIRST, *end = part - (int64_t)out[GW_EXTENT_ARGS] * GW_PART_NUMBERS;
    for (; part < end; part += GW_PART_NUMBERS)
        if (!part_stays(l, part))
            return false;
    return true;
}

static bool tells_extent(const gw_task *t, const gw_links *links) {
    return t->kind == GW_LAUNCH && links->extents && links->extents[t->kernel];
}

static bool check_launch(const gw_program *program, const gw_links *links, const gw_plan *plan, int64_t task,
                         int64_t *reach, gw_error *error) {
    const gw_task *t = &program->tasks[task];
    const launch l = {
        .program = program,
        .links = links,
        .plan = plan,
        .index = task,
        .error = error,
        .args = plan->args + t->first_arg,
        .arg_count = t->args.count,
        .first_operand = t->first_operand,
        .operand_count = t->operand_count,
        .reach = reach,
    };
    double few[GW_EXTENT_FIRST + FEW_OPERANDS] = {0};
    double *out = t->operand_count <= FEW_OPERANDS
                      ? few
                      : calloc((size_t)(GW_EXTENT_FIRST + t->operand_count), sizeof *out);
    if (!out)
        return gw_fail_memory(error);
    bool inside = launch_stays(&l, out);
    if (out != few)
        free(out);
    return inside;
}

bool gw_is_in_bounds(const gw_program *program, const gw_links *links, const gw_plan *plan, int64_t task,
                     gw_error *error) {
    return !tells_extent(&program->tasks[task], links) ||
           check_launch(program, links, plan, task, NULL, error);
}

/* ---- bytes ---- */

/* The bytes from the beginning of an operand to the end of its buffer; of a copy, the bytes that it copies.
 */
static int64_t room_of(const gw_program *program, const gw_plan *plan, int64_t task, int64_t k) {
    const gw_task *t = &program->tasks[task];
    const gw_operand *o = &program->operands[t->first_operand + k];
    if (o->buffer < 0)
        return 0;
    if (t->kind == GW_COPY && k < 2)
        return plan->steps[task].bytes;
    return plan->sizes[o->buffer] - gw_operand_begin(plan, o);
}

static bool is_written(const gw_task *t, int64_t k) {
    for (int64_t i = 0; i < t->writes.count; i++)
        if (t->writes.at[i] == k)
            return true;
    return false;
}

/* An operand before `k` that is read from the same address; -1 if there is none. */
static int64_t same_read(const gw_program *program, const gw_plan *plan, const gw_task *t, int64_t k) {
    const gw_operand *all = program->operands + t->first_operand;
    for (int64_t i = 0; i < k && all[k].buffer >= 0; i++)
        if (all[i].buffer == all[k].buffer && !is_written(t, i) &&
            gw_operand_begin(plan, &all[i]) == gw_operand_begin(plan, &all[k]))
            return i;
    return -1;
}

bool gw_task_bytes(const gw_program *program, const gw_links *links, const gw_plan *plan, int64_t task,
                   int64_t *read, int64_t *written) {
    const gw_task *t = &program->tasks[task];
    const gw_step *s = &plan->steps[task];
    *read = *written = 0;
    if (t->blocks.count > 0 || s->grid == 0 || s->out_of_bounds)
        return true;
    int64_t *reach = calloc((size_t)t->operand_count + 1, sizeof *reach);
    if (!reach)
        return false;
    gw_error error = {0};
    if (!tells_extent(t, links) || !check_launch(program, links, plan, task, reach, &error))
        for (int64_t k = 0; k < t->operand_count; k++)
            reach[k] = room_of(program, plan, task, k);
    for (int64_t k = 0; k < t->operand_count; k++) {
        int64_t before = is_written(t, k) ? -1 : same_read(program, plan, t, k);
        int64_t counted = before < 0 ? 0 : reach[before], more = reach[k] - counted;
        *(is_written(t, k) ? written : read) += more > 0 ? more : 0;
    }
    free(reach);
    return true;
}
