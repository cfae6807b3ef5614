#include "request.h"

#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "explain.h"
#include "pool.h"
#include "shapes.h"
#include "states.h"

/* Large outputs begin in the middle of a page: at its start, they would share cache sets with inputs. */
enum { AHEAD = 2112, STAGGERED = 128 << 10 };

static gw_status check_idle(const gw_request *request) {
    if (!request)
        return fail(GW_STATUS_ARGUMENT, "request: NULL");
    if (atomic_load(&request->is_busy))
        return fail(GW_STATUS_ARGUMENT, "the request is busy: wait with gw_request_wait");
    return GW_STATUS_OK;
}

/* ---- requests ---- */

static void free_request(gw_request *r) {
    choice_free(&r->choice);
    host_run_free(r->host);
    for (size_t i = 0; r->outputs && i < r->model->outputs.count; i++)
        block_free(&r->outputs[i].own);
    free(r->inputs), free(r->outputs), free(r->input_data), free(r->output_data);
    free(r);
}

gw_status gw_request_create(gw_model *model, gw_request **request) {
    if (!model || !request)
        return fail(GW_STATUS_ARGUMENT, "model or request: NULL");
    *request = NULL;
    gw_request *r = calloc(1, sizeof *r);
    if (!r)
        return fail_memory();
    size_t inputs = model->root.inputs.count, outputs = model->outputs.count;
    r->model = model;
    r->inputs = calloc(inputs + 1, sizeof *r->inputs);
    r->outputs = calloc(outputs + 1, sizeof *r->outputs);
    r->input_data = calloc(inputs + 1, sizeof *r->input_data);
    r->output_data = calloc(outputs + 1, sizeof *r->output_data);
    if (!r->inputs || !r->outputs || !r->input_data || !r->output_data) {
        free_request(r);
        return fail_memory();
    }
    for (size_t i = 0; i < outputs; i++)
        r->outputs[i].rank = -1;
    *request = r;
    return GW_STATUS_OK;
}

void gw_request_destroy(gw_request *request) {
    if (!request)
        return;
    request_wait(request);
    free_request(request);
}

/* ---- operands ---- */

gw_status gw_request_set_input(gw_request *request, size_t index, const void *data, size_t bytes,
                               const int64_t *shape, int rank) {
    int64_t sizes[GW_MAX_RANK];
    TRY(check_idle(request));
    if (index >= request->model->inputs.count)
        return fail(GW_STATUS_ARGUMENT, "there is no input %zu: the model has %zu", index,
                    request->model->inputs.count);
    const gw_tensor_info *info = &request->model->inputs.at[index];
    operand *o = &request->inputs[request->model->feeds[index]];
    if (!data && bytes > 0)
        return fail(GW_STATUS_ARGUMENT, "input '%s': NULL", info->name);
    TRY(shape_given(info, "input", shape, rank, bytes, sizes));
    rank = shape ? rank : info->rank;
    if (o->rank != rank || memcmp(o->sizes, sizes, (size_t)rank * sizeof *sizes) != 0)
        choice_drop(&request->choice);
    memcpy(o->sizes, sizes, (size_t)rank * sizeof *sizes);
    o->rank = rank;
    o->data = bytes > 0 ? data : no_bytes;
    o->is_set = true;
    return GW_STATUS_OK;
}

gw_status gw_request_set_output(gw_request *request, size_t index, void *data, size_t bytes) {
    TRY(check_idle(request));
    if (index >= request->model->outputs.count)
        return fail(GW_STATUS_ARGUMENT, "there is no output %zu: the model has %zu", index,
                    request->model->outputs.count);
    request->outputs[index].given = data;
    request->outputs[index].given_bytes = data ? bytes : 0;
    return GW_STATUS_OK;
}

int gw_request_output_rank(const gw_request *request, size_t index) {
    return request && index < request->model->outputs.count ? request->outputs[index].rank : -1;
}

int64_t gw_request_output_size(const gw_request *request, size_t index, int axis) {
    return axis >= 0 && axis < gw_request_output_rank(request, index) ? request->outputs[index].sizes[axis]
                                                                      : -1;
}

size_t gw_request_output_bytes(const gw_request *request, size_t index) {
    return gw_request_output_rank(request, index) >= 0 ? request->outputs[index].bytes : 0;
}

const void *gw_request_output_data(const gw_request *request, size_t index) {
    return gw_request_output_rank(request, index) >= 0 ? request->outputs[index].data : NULL;
}

/* ---- plans; if the model has states, their lock is held ---- */

static gw_status check_inputs(const gw_request *r) {
    for (size_t i = 0; i < r->model->inputs.count; i++)
        if (!r->inputs[r->model->feeds[i]].is_set)
            return fail(GW_STATUS_ARGUMENT, "input '%s' is not set: call gw_request_set_input",
                        r->model->inputs.at[i].name);
    return GW_STATUS_OK;
}

static gw_status read_states(gw_request *r) {
    for (size_t i = 0; i < r->model->root.inputs.count; i++) {
        state *s = r->model->states[i];
        operand *o = &r->inputs[i];
        if (!s)
            continue;
        TRY(state_ready(r->model->owner, s));
        if (o->rank != s->info.rank || memcmp(o->sizes, s->shape, (size_t)o->rank * sizeof *o->sizes) != 0)
            choice_drop(&r->choice);
        o->rank = s->info.rank;
        memcpy(o->sizes, s->shape, (size_t)o->rank * sizeof *o->sizes);
        o->data = s->content.data;
    }
    return GW_STATUS_OK;
}

/* Forgets the outputs until a run writes them again. */
static void forget_outputs(gw_request *r) {
    for (size_t i = 0; i < r->model->outputs.count; i++)
        r->outputs[i].data = NULL;
}

/* The output shapes; those of a host program are known only after the run. */
static void read_output_sizes(gw_request *r) {
    const gw_plan *plan = r->choice.plan;
    for (size_t i = 0; i < r->model->outputs.count; i++) {
        gw_list dims = plan ? r->choice.program->linked.program->outputs[i].dims : (gw_list){-1, NULL};
        r->outputs[i].rank = (int)dims.count;
        for (int64_t axis = 0; axis < dims.count; axis++)
            r->outputs[i].sizes[axis] = plan->registers[dims.at[axis]];
        r->outputs[i].bytes = plan ? (size_t)plan->output_bytes[i] : 0;
    }
}

static int threads_of(const gw_request *r) {
    int threads = atomic_load(&r->model->threads);
    return threads > 0 ? threads : gw_pool_threads();
}

static gw_status plan(gw_request *r) {
    choice *c = &r->choice;
    TRY(check_inputs(r));
    TRY(read_states(r));
    if (c->plan && c->plan->threads == threads_of(r))
        return GW_STATUS_OK;
    choice_drop(c);
    TRY(choose_program(c, &r->model->root, r->inputs, threads_of(r)));
    read_output_sizes(r);
    forget_outputs(r);
    return GW_STATUS_OK;
}

/* ---- memory of outputs ---- */

static int64_t bytes_of(const operand *o, gw_dtype dtype) {
    int64_t bytes = (int64_t)gw_dtype_bytes(dtype);
    for (int axis = 0; axis < o->rank; axis++)
        bytes *= o->sizes[axis];
    return bytes;
}

/* Whether no input and no earlier output uses the memory of an output. */
static bool is_apart(const gw_request *r, size_t index) {
    const result *output = &r->outputs[index];
    const infos *inputs = &r->model->root.inputs;
    for (size_t i = 0; i < inputs->count; i++)
        if (gw_overlap(output->data, (int64_t)output->bytes, r->inputs[i].data,
                       bytes_of(&r->inputs[i], inputs->at[i].dtype)))
            return false;
    for (size_t i = 0; i < index; i++)
        if (gw_overlap(output->data, (int64_t)output->bytes, r->outputs[i].data,
                       (int64_t)r->outputs[i].bytes))
            return false;
    return true;
}

static gw_status place_output(gw_request *r, size_t index) {
    result *output = &r->outputs[index];
    const char *name = r->model->outputs.at[index].name;
    size_t ahead = output->bytes >= STAGGERED ? AHEAD : 0;
    if (output->given && output->given_bytes < output->bytes)
        return fail(GW_STATUS_ARGUMENT, "output '%s' takes %zu bytes, but its buffer has %zu", name,
                    output->bytes, output->given_bytes);
    if (!output->given && (!output->own.data || output->own.size < output->bytes + ahead)) {
        block_free(&output->own);
        if (!block_allocate(&output->own, output->bytes + ahead))
            return fail_memory();
    }
    output->data = output->given ? output->given : output->own.data + ahead;
    if (output->given && !is_apart(r, index))
        return fail(GW_STATUS_ARGUMENT, "output '%s' overlaps an input or another output", name);
    return GW_STATUS_OK;
}

/* ---- runs ---- */

static gw_status place_operands(gw_request *r) {
    for (size_t i = 0; i < r->model->root.inputs.count; i++)
        r->input_data[i] = (void *)(uintptr_t)r->inputs[i].data;
    for (size_t i = 0; i < r->model->outputs.count; i++) {
        TRY(place_output(r, i));
        r->output_data[i] = r->outputs[i].data;
    }
    return GW_STATUS_OK;
}

static gw_status run_program(gw_request *r) {
    gw_error error = {0};
    TRY(place_operands(r));
    gw_call call = {.plan = r->choice.plan, .inputs = r->input_data, .outputs = r->output_data};
    if (gw_linked_run(&r->choice.program->linked, &call, &error))
        return GW_STATUS_OK;
    forget_outputs(r);
    return explain(r->choice.program, &error);
}

/* ---- runs of host programs ---- */

/* An output refers to the memory of `value`, without a copy, unless this is also the memory of an input or of
   another output. */
static gw_status give_result(gw_request *r, size_t index, const operand *value) {
    result *output = &r->outputs[index];
    output->rank = value->rank;
    memcpy(output->sizes, value->sizes, sizeof output->sizes);
    output->bytes = (size_t)bytes_of(value, r->model->outputs.at[index].dtype);
    output->data = (void *)(uintptr_t)value->data;
    if (!output->given && is_apart(r, index))
        return GW_STATUS_OK;
    TRY(place_output(r, index));
    memcpy(output->data, value->data, output->bytes);
    return GW_STATUS_OK;
}

static gw_status run_steps(gw_request *r) {
    const host_program *steps = r->choice.program->steps;
    forget_outputs(r);
    if (r->host && r->host->program != steps) {
        host_run_free(r->host);
        r->host = NULL;
    }
    if (!r->host)
        TRY(host_run_make(steps, &r->host));
    TRY(host_run_execute(r->host, r->inputs, r->model->owner->weights.data, threads_of(r)));
    for (size_t i = 0; i < r->model->outputs.count; i++)
        TRY(give_result(r, i, &r->host->slots[steps->results.at[i]].value));
    return GW_STATUS_OK;
}

static gw_status run_planned(gw_request *r) {
    TRY(plan(r));
    return r->choice.plan ? run_program(r) : run_steps(r);
}

/* Calls `what`; if the model has states, excludes all other runs meanwhile. */
static gw_status with_states(gw_request *r, gw_status (*what)(gw_request *r)) {
    if (r->model->own_state_count == 0)
        return what(r);
    pthread_mutex_lock(&r->model->owner->states_lock);
    gw_status status = what(r);
    pthread_mutex_unlock(&r->model->owner->states_lock);
    return status;
}

gw_status request_run(gw_request *request) { return with_states(request, run_planned); }

gw_status gw_request_plan(gw_request *request) {
    TRY(check_idle(request));
    return with_states(request, plan);
}

gw_status gw_request_run(gw_request *request) {
    TRY(check_idle(request));
    return request_run(request);
}
