#include "extent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_OPERANDS = 30 };

typedef struct {
    const gw_program *program;
    const gw_plan *plan;
    const gw_task *task;
    int64_t index;
    gw_error *error;
} launch;

static const gw_operand *operand_of(const launch *l, int64_t k) {
    return &l->program->operands[l->task->first_operand + k];
}

/* Whether the operands from `first` up to `last` hold what is touched of them. */
static bool holds(const launch *l, int64_t first, int64_t last, const double *ends) {
    for (int64_t k = first; k < last; k++, ends++) {
        const gw_operand *o = operand_of(l, k);
        if (o->buffer < 0 && !(*ends <= 0))
            return gw_fail(l->error, GW_E_PLAN, "task %lld needs operand %lld, which is absent",
                           (long long)l->index, (long long)k);
        if (o->buffer < 0)
            continue;
        double room = (double)l->plan->sizes[o->buffer] - (double)l->plan->registers[o->offset];
        if (!(fabs(*ends) <= room))
            return gw_fail(l->error, GW_E_PLAN, "task %lld reaches %g bytes of operand %lld, which has %g",
                           (long long)l->index, fabs(*ends), (long long)k, room);
    }
    return true;
}

/* The epilogue's place among the operands; -1 if there is none. */
static int64_t hook_of(const launch *l) {
    for (int64_t k = 0; k < l->task->operand_count; k++)
        if (operand_of(l, k)->buffer == GW_OPERAND_FUNCTION)
            return k;
    return -1;
}

static bool fail_arguments(const launch *l) {
    return gw_fail(l->error, GW_E_PLAN, "task %lld: its kernel takes no such arguments", (long long)l->index);
}

static bool kernel_stays(const launch *l, gw_extent extent, double *out, int64_t hook) {
    const gw_task *t = l->task;
    int64_t grid = l->plan->steps[l->index].grid, operands = t->operand_count;
    double scratch = t->scratch < 0 ? 0 : (double)l->plan->sizes[t->scratch];
    out[GW_EXTENT_GRID] = (double)grid;
    out[GW_EXTENT_HOOK] = hook >= 0;
    if (extent(l->plan->args + t->first_arg, t->args.count, operands, out) != 0)
        return fail_arguments(l);
    if (!((double)grid <= out[GW_EXTENT_GRID]) || !(out[GW_EXTENT_SCRATCH] <= scratch))
        return gw_fail(
            l->error, GW_E_PLAN,
            "task %lld has a grid of %lld and %g bytes of scratch, its kernel one of at most %g and %g",
            (long long)l->index, (long long)grid, scratch, out[GW_EXTENT_GRID], out[GW_EXTENT_SCRATCH]);
    int64_t own = out[GW_EXTENT_ARGS] > 0 ? (int64_t)out[GW_EXTENT_HOOK] : operands;
    if ((hook >= 0 && hook != own) || (own < operands && operand_of(l, own)->buffer >= 0))
        return fail_arguments(l);
    return holds(l, 0, own, out + GW_EXTENT_FIRST);
}

static bool hook_stays(const launch *l, gw_extent extent, double *out, int64_t hook) {
    const gw_task *t = l->task;
    int64_t args = (int64_t)out[GW_EXTENT_ARGS], operands = t->operand_count - hook - 1;
    memset(out + GW_EXTENT_FIRST, 0, (size_t)operands * sizeof *out);
    if (!extent || extent(l->plan->args + t->first_arg + args, t->args.count - args, operands, out) != 0)
        return fail_arguments(l);
    return holds(l, hook + 1, t->operand_count, out + GW_EXTENT_FIRST);
}

bool gw_stays_inside(const gw_program *program, const gw_links *links, const gw_plan *plan, int64_t task,
                     gw_error *error) {
    const launch l = {program, plan, &program->tasks[task], task, error};
    if (l.task->kind != GW_LAUNCH || !links->extents || !links->extents[l.task->kernel])
        return true;
    int64_t hook = hook_of(&l), operands = l.task->operand_count;
    double few[GW_EXTENT_FIRST + FEW_OPERANDS] = {0};
    double *out = operands <= FEW_OPERANDS ? few : calloc((size_t)(GW_EXTENT_FIRST + operands), sizeof *out);
    if (!out)
        return gw_fail_memory(error);
    bool inside = kernel_stays(&l, (gw_extent)(uintptr_t)links->extents[l.task->kernel], out, hook);
    if (inside && hook >= 0)
        inside =
            hook_stays(&l, (gw_extent)(uintptr_t)links->extents[operand_of(&l, hook)->offset], out, hook);
    if (out != few)
        free(out);
    return inside;
}
