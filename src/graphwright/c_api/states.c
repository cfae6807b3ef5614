#include "states.h"

#include <stdio.h>
#include <string.h>

#include "shapes.h"

static size_t bytes_of(const state *s) {
    size_t bytes = gw_dtype_bytes(s->info.dtype);
    for (int axis = 0; axis < s->info.rank; axis++)
        if (__builtin_mul_overflow(bytes, (size_t)s->shape[axis], &bytes))
            return SIZE_MAX;
    return bytes;
}

static gw_status start_with_zeros(state *s) {
    for (int axis = 0; axis < s->info.rank; axis++) {
        if (s->info.sizes[axis] < 0)
            return fail(GW_STATUS_SHAPE,
                        "state '%s' has dynamic dimensions: set it before the first run with "
                        "gw_state_set",
                        s->info.name);
        s->shape[axis] = s->info.sizes[axis];
    }
    if (!block_allocate(&s->content, bytes_of(s)))
        return fail_memory();
    memset(s->content.data, 0, s->content.size);
    return GW_STATUS_OK;
}

gw_status state_ready(const package *p, state *s) {
    gw_dtype dtype;
    int rank;
    if (s->content.data)
        return GW_STATUS_OK;
    if (!s->start)
        return start_with_zeros(s);
    if (!tensor_type(s->start, &dtype, &rank, s->shape) || !block_allocate(&s->content, s->start->size))
        return fail_memory();
    memcpy(s->content.data, p->weights.data + s->start->start, s->start->size);
    return GW_STATUS_OK;
}

/* ---- the interface ---- */

static gw_status find_state(gw_model *model, size_t index, state **found) {
    if (!model || index >= model->own_state_count)
        return fail(GW_STATUS_ARGUMENT, "there is no state %zu", index);
    *found = model->own_states[index];
    return GW_STATUS_OK;
}

size_t gw_state_count(const gw_model *model) { return model ? model->own_state_count : 0; }

const gw_tensor_info *gw_state(const gw_model *model, size_t index) {
    return index < gw_state_count(model) ? &model->own_states[index]->info : NULL;
}

gw_status gw_states_reset(gw_model *model) {
    if (!model)
        return fail(GW_STATUS_ARGUMENT, "model: NULL");
    package *p = model->owner;
    pthread_mutex_lock(&p->states_lock);
    for (size_t i = 0; i < p->state_count; i++)
        block_free(&p->states[i].content);
    pthread_mutex_unlock(&p->states_lock);
    return GW_STATUS_OK;
}

gw_status gw_state_set(gw_model *model, size_t index, const void *data, size_t bytes, const int64_t *shape,
                       int rank) {
    state *s = NULL;
    int64_t sizes[GW_MAX_RANK];
    block copy = {0};
    TRY(find_state(model, index, &s));
    if (!data && bytes > 0)
        return fail(GW_STATUS_ARGUMENT, "data: NULL");
    TRY(shape_given(&s->info, "state", shape, rank, bytes, sizes));
    if (!block_allocate(&copy, bytes))
        return fail_memory();
    if (bytes > 0)
        memcpy(copy.data, data, bytes);
    pthread_mutex_lock(&model->owner->states_lock);
    block before = s->content;
    s->content = copy;
    memcpy(s->shape, sizes, (size_t)s->info.rank * sizeof *sizes);
    pthread_mutex_unlock(&model->owner->states_lock);
    block_free(&before);
    return GW_STATUS_OK;
}

gw_status gw_state_get(gw_model *model, size_t index, void *data, size_t bytes) {
    state *s = NULL;
    TRY(find_state(model, index, &s));
    pthread_mutex_lock(&model->owner->states_lock);
    gw_status status = state_ready(model->owner, s);
    if (status == GW_STATUS_OK && (s->content.size != bytes || (!data && bytes > 0)))
        status = fail(GW_STATUS_ARGUMENT, "state '%s' has %zu bytes, but its buffer has %zu", s->info.name,
                      s->content.size, bytes);
    if (status == GW_STATUS_OK && bytes > 0)
        memcpy(data, s->content.data, bytes);
    pthread_mutex_unlock(&model->owner->states_lock);
    return status;
}

gw_status gw_state_shape(gw_model *model, size_t index, int64_t *shape, int rank) {
    state *s = NULL;
    TRY(find_state(model, index, &s));
    if (rank != s->info.rank || (!shape && rank > 0))
        return fail(GW_STATUS_ARGUMENT, "state '%s' has rank %d, not %d", s->info.name, s->info.rank, rank);
    pthread_mutex_lock(&model->owner->states_lock);
    gw_status status = state_ready(model->owner, s);
    if (status == GW_STATUS_OK && rank > 0)
        memcpy(shape, s->shape, (size_t)rank * sizeof *shape);
    pthread_mutex_unlock(&model->owner->states_lock);
    return status;
}
