/* Models: opening, closing and querying them. */
#include <stdlib.h>
#include <string.h>

#include "embedded.h"
#include "package.h"
#include "pool.h"
#include "states.h"
#include "steps.h"
#include "trust.h"

#ifndef GW_VERSION_TEXT
#define GW_VERSION_TEXT "0"
#endif

uint32_t gw_api_version(void) { return GW_API_MAJOR * 1000 + GW_API_MINOR; }

const char *gw_version(void) { return GW_VERSION_TEXT; }

/* ---- opening ---- */

static gw_status open_package(gw_status opened, archive *source, const gw_options *options,
                              gw_model **model) {
    package *p = opened == GW_STATUS_OK ? calloc(1, sizeof *p) : NULL;
    if (!p) {
        archive_close(source);
        return opened == GW_STATUS_OK ? fail_memory() : opened;
    }
    gw_status status = package_open(p, source, options);
    if (status == GW_STATUS_OK) {
        *model = &p->models[0];
        return status;
    }
    package_close(p);
    free(p);
    return status;
}

gw_status gw_open(const char *path, const gw_options *options, gw_model **model) {
    archive source;
    if (!path || !model)
        return fail(GW_STATUS_ARGUMENT, "path or model: NULL");
    *model = NULL;
    return open_package(archive_open_file(&source, path), &source, options, model);
}

gw_status gw_open_memory(const void *data, size_t size, const gw_options *options, gw_model **model) {
    archive source;
    if (!data || !model)
        return fail(GW_STATUS_ARGUMENT, "data or model: NULL");
    *model = NULL;
    return open_package(archive_open_memory(&source, "the package's bytes", data, size), &source, options,
                        model);
}

gw_status gw_open_embedded(const gw_options *options, gw_model **model) {
    archive source;
    gw_part package;
    (void)options; /* they are about trust, which the library has */
    if (!model)
        return fail(GW_STATUS_ARGUMENT, "model: NULL");
    *model = NULL;
    TRY(embedded_package(&package));
    gw_status opened = archive_open_memory(&source, gw_contents_path(), package.data, package.size);
    gw_status status = open_package(opened, &source, trust_all, model);
    gw_contents_release(); /* it was copied */
    return status;
}

void gw_close(gw_model *model) {
    if (!model)
        return;
    package *p = model->owner;
    package_close(p);
    free(p);
}

/* ---- entries ---- */

size_t gw_entry_count(const gw_model *model) { return model ? model->owner->model_count : 0; }

const char *gw_entry_name(const gw_model *model, size_t index) {
    return index < gw_entry_count(model) ? model->owner->models[index].name : NULL;
}

gw_status gw_entry(gw_model *model, const char *name, gw_model **entry) {
    if (!model || !name || !entry)
        return fail(GW_STATUS_ARGUMENT, "model, name or entry: NULL");
    for (size_t i = 0; i < model->owner->model_count; i++)
        if (strcmp(model->owner->models[i].name, name) == 0) {
            *entry = &model->owner->models[i];
            return GW_STATUS_OK;
        }
    return fail(GW_STATUS_ARGUMENT, "there is no entry '%s': the first is '%s'", name,
                model->owner->models[0].name);
}

/* ---- threads ---- */

static gw_status check_threads(int threads) {
    return threads >= 0 ? GW_STATUS_OK : fail(GW_STATUS_ARGUMENT, "threads: %d, which is negative", threads);
}

gw_status gw_model_set_threads(gw_model *model, int threads) {
    if (!model)
        return fail(GW_STATUS_ARGUMENT, "model: NULL");
    TRY(check_threads(threads));
    atomic_store(&model->threads, threads < GW_MAX_THREADS ? threads : GW_MAX_THREADS);
    return GW_STATUS_OK;
}

gw_status gw_set_threads(int threads) {
    TRY(check_threads(threads));
    gw_pool_set_threads(threads < GW_MAX_THREADS ? threads : GW_MAX_THREADS);
    return GW_STATUS_OK;
}

/* ---- inputs and outputs ---- */

static const gw_tensor_info *info_at(const infos *all, size_t index) {
    return index < all->count ? &all->at[index] : NULL;
}

size_t gw_input_count(const gw_model *model) { return model ? model->inputs.count : 0; }
size_t gw_output_count(const gw_model *model) { return model ? model->outputs.count : 0; }

const gw_tensor_info *gw_input(const gw_model *model, size_t index) {
    return model ? info_at(&model->inputs, index) : NULL;
}

const gw_tensor_info *gw_output(const gw_model *model, size_t index) {
    return model ? info_at(&model->outputs, index) : NULL;
}

const char *gw_tensor_name(const gw_tensor_info *info) { return info ? info->name : NULL; }
gw_dtype gw_tensor_dtype(const gw_tensor_info *info) { return info ? info->dtype : GW_DTYPE_BOOL; }
int gw_tensor_rank(const gw_tensor_info *info) { return info ? info->rank : -1; }

int64_t gw_tensor_size(const gw_tensor_info *info, int axis) {
    return info && axis >= 0 && axis < info->rank ? info->sizes[axis] : -1;
}

const char *gw_tensor_symbol(const gw_tensor_info *info, int axis) {
    return info && axis >= 0 && axis < info->rank ? info->symbols[axis] : NULL;
}

/* ---- memory ---- */

static void trim(executable *e) {
    for (size_t i = 0; i < e->case_count; i++)
        trim(&e->cases[i]);
    for (size_t i = 0; e->kind == STEPS && i < e->steps->step_count; i++)
        trim(&e->steps->steps[i].callee);
    if (e->kind == PROGRAM) {
        gw_context_pool_clear(&e->linked.contexts);
        gw_plan_cache_clear(&e->linked.plans);
    }
}

void gw_trim(gw_model *model) {
    if (!model)
        return;
    for (size_t i = 0; i < model->owner->model_count; i++)
        trim(&model->owner->models[i].root);
    gw_arena_pool_clear(&model->owner->arenas);
}
