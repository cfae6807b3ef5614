#include "run_steps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"

#define NO_NUMBER INT64_MIN /* the result of converting a float that is not finite or too large */

/* ---- memory ---- */

static size_t most_operands(const host_program *program) {
    size_t most = 0;
    for (size_t i = 0; i < program->step_count; i++) {
        const step *s = &program->steps[i];
        size_t needed = s->inputs.count + s->sizes.count + s->outputs.count;
        most = needed > most ? needed : most;
    }
    return most;
}

gw_status host_run_make(const host_program *program, host_run **made) {
    host_run *run = *made = calloc(1, sizeof *run);
    size_t operands = most_operands(program) + 1;
    if (!run)
        return fail_memory();
    run->program = program;
    run->slots = calloc(program->values.count + 1, sizeof *run->slots);
    run->sizes = calloc(program->symbol_count + 1, sizeof *run->sizes);
    run->operands = calloc(operands, sizeof *run->operands);
    run->input_data = calloc(operands, sizeof *run->input_data);
    run->output_data = calloc(operands, sizeof *run->output_data);
    if (run->slots && run->sizes && run->operands && run->input_data && run->output_data)
        return GW_STATUS_OK;
    host_run_free(run);
    *made = NULL;
    return fail_memory();
}

void host_run_free(host_run *run) {
    if (!run)
        return;
    for (size_t i = 0; run->slots && i < run->program->values.count; i++)
        block_free(&run->slots[i].own);
    choice_free(&run->choice);
    free(run->slots), free(run->sizes), free(run->operands), free(run->input_data), free(run->output_data);
    free(run);
}

/* ---- sizes ---- */

static gw_status learn_sizes(host_run *run, size_t input, const operand *o) {
    const gw_tensor_info *info = &run->program->values.at[input];
    if (info->rank < 0)
        return GW_STATUS_OK;
    if (o->rank != info->rank)
        return fail(GW_STATUS_SHAPE, "'%s' must have rank %d, but has rank %d", info->name, info->rank,
                    o->rank);
    for (int axis = 0; axis < o->rank; axis++) {
        const axis_rule *rule = &run->program->rules[input][axis];
        int64_t expected = info->sizes[axis], *known = rule->scale ? &run->sizes[rule->symbol] : NULL;
        if (known && *known < 0)
            *known = o->sizes[axis] / rule->scale;
        if (known && __builtin_mul_overflow(*known, rule->scale, &expected))
            expected = -1;
        if (expected != o->sizes[axis])
            return fail(GW_STATUS_SHAPE, "axis %d of '%s' must be %" PRId64 ", but is %" PRId64, axis,
                        info->name, expected, o->sizes[axis]);
    }
    return GW_STATUS_OK;
}

static gw_status bind_size(host_run *run, const step *s, int64_t *count) {
    const char *name = run->program->symbols[s->symbol];
    int64_t *known = &run->sizes[s->symbol];
    memcpy(count, run->slots[s->inputs.at[0]].value.data, sizeof *count);
    if (*count == NO_NUMBER)
        return fail(GW_STATUS_RUN,
                    "node '%s': %s is not a valid size: it is not finite, or exceeds 64 bits (a step of 0?)",
                    s->node, name);
    if (*count < 0)
        return fail(GW_STATUS_RUN, "node '%s': %s is %" PRId64 ", which is not a valid size", s->node, name,
                    *count);
    if (*known >= 0 && *known != *count)
        return fail(GW_STATUS_RUN, "node '%s': %s must be %" PRId64 ", but is %" PRId64, s->node, name,
                    *known, *count);
    *known = *count;
    return GW_STATUS_OK;
}

/* Returns false if the product overflows. */
static bool count_elements(const operand *o, int64_t *elements) {
    *elements = 1;
    for (int axis = 0; axis < o->rank; axis++)
        if (__builtin_mul_overflow(*elements, o->sizes[axis], elements))
            return false;
    return true;
}

/* Makes the first elements of a buffer a value, without a copy. */
static gw_status bind_value(const step *s, const operand *buffer, const bound_shape *shape, int64_t count,
                            operand *bound) {
    int64_t elements, room;
    *bound = (operand){.data = buffer->data, .is_set = true, .rank = shape->rank};
    for (int axis = 0; axis < shape->rank; axis++)
        bound->sizes[axis] = shape->sizes[axis] < 0 ? count : shape->sizes[axis];
    if (count_elements(bound, &elements) && count_elements(buffer, &room) && elements <= room)
        return GW_STATUS_OK;
    return fail(GW_STATUS_RUN, "node '%s': size %" PRId64 " exceeds the size of the buffer", s->node, count);
}

static gw_status run_bound(host_run *run, const step *s) {
    int64_t count, elements;
    const operand *number = &run->slots[s->inputs.at[0]].value;
    if (!count_elements(number, &elements) || elements != 1)
        return fail(GW_STATUS_RUN, "node '%s': its count is not a scalar", s->node);
    TRY(bind_size(run, s, &count));
    for (size_t i = 0; i < s->outputs.count; i++)
        TRY(bind_value(s, &run->slots[s->inputs.at[i + 1]].value, &s->shapes[i], count,
                       &run->slots[s->outputs.at[i]].value));
    return GW_STATUS_OK;
}

/* ---- calls ---- */

static gw_status read_operands(host_run *run, const step *s) {
    for (size_t i = 0; i < s->inputs.count; i++)
        run->operands[i] = run->slots[s->inputs.at[i]].value;
    for (size_t i = 0; i < s->sizes.count; i++) {
        int64_t size = run->sizes[s->sizes.at[i]];
        if (size < 0)
            return fail(GW_STATUS_RUN, "the size %s of a subgraph was never bound",
                        run->program->symbols[s->sizes.at[i]]);
        run->operands[s->inputs.count + i] = (operand){no_bytes, true, 2, {size, 0}};
    }
    for (size_t i = 0; i < s->inputs.count + s->sizes.count; i++)
        run->input_data[i] = (void *)(uintptr_t)run->operands[i].data;
    return GW_STATUS_OK;
}

static gw_status place_result(slot *out, gw_list dims, const gw_plan *plan, size_t bytes) {
    if ((!out->own.data || out->own.size < bytes)) {
        block_free(&out->own);
        if (!block_allocate(&out->own, bytes))
            return fail_memory();
    }
    out->value = (operand){.data = out->own.data, .is_set = true, .rank = (int)dims.count};
    for (int64_t axis = 0; axis < dims.count; axis++)
        out->value.sizes[axis] = plan->registers[dims.at[axis]];
    return GW_STATUS_OK;
}

static gw_status run_chosen(host_run *run, const step *s) {
    gw_linked *linked = &run->choice.program->linked;
    const gw_plan *plan = run->choice.plan;
    gw_error error = {0};
    for (size_t i = 0; i < s->outputs.count; i++) {
        slot *out = &run->slots[s->outputs.at[i]];
        TRY(place_result(out, linked->program->outputs[i].dims, plan, (size_t)plan->output_bytes[i]));
        run->output_data[i] = out->own.data;
    }
    gw_call call = {.plan = plan, .inputs = run->input_data, .outputs = run->output_data};
    return gw_linked_run(linked, &call, &error) ? GW_STATUS_OK : explain(run->choice.program, &error);
}

static gw_status run_call(host_run *run, const step *s, int threads) {
    TRY(read_operands(run, s));
    TRY(choose_program(&run->choice, (executable *)(uintptr_t)&s->callee, run->operands, threads));
    gw_status status = run_chosen(run, s);
    choice_drop(&run->choice);
    return status;
}

/* ---- runs ---- */

static void read_constants(host_run *run, const char *weights) {
    const host_program *h = run->program;
    for (size_t i = 0; i < h->constants.count; i++) {
        operand *o = &run->slots[h->constants.at[i]].value;
        gw_dtype dtype;
        o->data = weights + h->tensors[i]->start;
        o->is_set = tensor_type(h->tensors[i], &dtype, &o->rank, o->sizes);
    }
}

gw_status host_run_execute(host_run *run, const operand *inputs, const char *weights, int threads) {
    const host_program *h = run->program;
    for (size_t i = 0; i < h->symbol_count; i++)
        run->sizes[i] = -1;
    for (size_t i = 0; i < h->input_count; i++) {
        TRY(learn_sizes(run, i, &inputs[i]));
        run->slots[i].value = inputs[i];
    }
    read_constants(run, weights);
    for (size_t i = 0; i < h->step_count; i++)
        TRY(h->steps[i].is_call ? run_call(run, &h->steps[i], threads) : run_bound(run, &h->steps[i]));
    return GW_STATUS_OK;
}
