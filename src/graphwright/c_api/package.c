#include "package.h"

#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "linking.h"
#include "loader.h"
#include "packs.h"
#include "steps.h"
#include "trust.h"

enum { FORMAT = 8, ARENAS = 8, NAMES = 1024 };

/* ---- the manifest ---- */

static gw_status check_format(const package *p) {
    int64_t format = 0;
    if (!json_integer(json_member(p->manifest.values, "format"), &format))
        return archive_damaged(&p->source, "its manifest has no format");
    if (format == FORMAT)
        return GW_STATUS_OK;
    return fail(GW_STATUS_PACKAGE,
                "%s: the package has format %lld, this version of graphwright reads %d: compile the model "
                "again with this version",
                p->where, (long long)format, FORMAT);
}

/* Checks that the archive and the manifest list the same members. */
static gw_status check_members(const package *p) {
    size_t listed = 0, held = p->source.count - 1; /* without the manifest itself */
    held -= archive_find(&p->source, "signature") != NULL;
    JSON_EACH_KEY(name, p->members) {
        listed++;
        if (!archive_find(&p->source, name->text))
            return archive_damaged(&p->source, "members and manifest differ");
    }
    return listed == held ? GW_STATUS_OK : archive_damaged(&p->source, "members and manifest differ");
}

static gw_status read_manifest(package *p) {
    const char *fault;
    const member *found = archive_find(&p->source, "manifest.json");
    if (!found)
        return archive_damaged(&p->source, "it has no manifest");
    TRY(archive_read(&p->source, found, &p->manifest_text));
    if (!json_parse(&p->manifest, p->manifest_text.data, p->manifest_text.size, &fault))
        return archive_damaged(&p->source, fault);
    p->members = json_member(p->manifest.values, "members");
    TRY(check_format(p));
    return check_members(p);
}

static gw_status check_trust(package *p, const gw_options *options) {
    const member *found = archive_find(&p->source, "signature");
    block signature = {0};
    bool trusted = false;
    if (found)
        TRY(archive_read(&p->source, found, &signature));
    gw_status status = trust_decide(options, p->manifest_text.data, p->manifest_text.size, signature.data,
                                    signature.size, &trusted);
    block_free(&signature);
    if (status != GW_STATUS_OK || trusted)
        return status;
    return fail(GW_STATUS_UNTRUSTED,
                "%s: its kernels are not run because no trusted key signed them: add the key of its author "
                "(gw_options_add_key_file), trust it (gw_options_set_trust), or compile it again with this "
                "user's key: graphwright compile FILE -o NEW.om",
                p->where);
}

/* ---- states ---- */

static bool accepts_tensor(const gw_tensor_info *info, const tensor *t) {
    gw_dtype dtype;
    int rank;
    int64_t sizes[GW_MAX_RANK];
    if (!tensor_type(t, &dtype, &rank, sizes) || dtype != info->dtype || rank != info->rank)
        return false;
    for (int axis = 0; axis < rank; axis++)
        if (info->sizes[axis] >= 0 && info->sizes[axis] != sizes[axis])
            return false;
    return true;
}

static gw_status make_state(package *p, const gw_tensor_info *info, const char *start, state *made) {
    *made = (state){.info = *info};
    if (info->rank < 0)
        return archive_damaged(&p->source, "a state has no rank");
    made->shape = pool_allocate(&p->memory, (size_t)info->rank, sizeof *made->shape);
    if (!made->shape)
        return fail_memory();
    if (!start)
        return GW_STATUS_OK;
    made->start = weights_find(&p->weights, start);
    return made->start && accepts_tensor(info, made->start)
               ? GW_STATUS_OK
               : archive_damaged(&p->source, "the initial value of a state has another type");
}

/* The state of that name: entries share states of the same name. */
static gw_status find_state(package *p, const json *entry, const gw_tensor_info *info, state **found) {
    for (size_t i = 0; i < p->state_count; i++) {
        *found = &p->states[i];
        if (strcmp((*found)->info.name, info->name) != 0)
            continue;
        return (*found)->info.dtype == info->dtype
                   ? GW_STATUS_OK
                   : archive_damaged(&p->source, "entries have states of the same name and different types");
    }
    *found = &p->states[p->state_count++];
    return make_state(p, info, json_text_of(json_member(entry, "starts"), info->name), *found);
}

/* ---- entries ---- */

static gw_status load_programs(package *p, const json *entry, executable *e, int64_t *number) {
    if (e->kind == PROGRAM)
        return link_program(p, entry, (*number)++, e);
    for (size_t i = 0; e->kind == STEPS && i < e->steps->step_count; i++)
        if (e->steps->steps[i].is_call)
            TRY(load_programs(p, entry, &e->steps->steps[i].callee, number));
    for (size_t i = 0; i < e->case_count; i++)
        TRY(load_programs(p, entry, &e->cases[i], number));
    return GW_STATUS_OK;
}

/* Separates the inputs of the caller from the states. */
static gw_status divide_inputs(package *p, const json *entry, const infos *all, gw_model *m) {
    m->inputs.at = pool_allocate(&p->memory, all->count, sizeof *m->inputs.at);
    m->feeds = pool_allocate(&p->memory, all->count, sizeof *m->feeds);
    m->states = pool_allocate(&p->memory, all->count, sizeof *m->states);
    m->own_states = pool_allocate(&p->memory, all->count, sizeof *m->own_states);
    if (!m->inputs.at || !m->feeds || !m->states || !m->own_states)
        return fail_memory();
    for (size_t i = 0; i < all->count; i++) {
        if (!m->root.is_state[i]) {
            m->feeds[m->inputs.count] = i;
            m->inputs.at[m->inputs.count++] = all->at[i];
            continue;
        }
        TRY(find_state(p, entry, &all->at[i], &m->states[i]));
        m->own_states[m->own_state_count++] = m->states[i];
    }
    return GW_STATUS_OK;
}

static gw_status open_entry(package *p, const json *entry, gw_model *m) {
    infos inputs = {0};
    int64_t programs = 0;
    const json *plain = json_member(entry, "executable");
    m->owner = p;
    m->name = json_text_of(entry, "name");
    if (!m->name || !plain || json_is_null(plain))
        return archive_damaged(&p->source, "an entry has no name, or holds no kernels");
    TRY(decode_infos(p, json_member(entry, "inputs"), &inputs));
    TRY(decode_infos(p, json_member(entry, "outputs"), &m->outputs));
    TRY(decode_executable(p, plain, &m->root));
    if (!same_dtypes(&m->root.inputs, &inputs) || !same_dtypes(&m->root.outputs, &m->outputs))
        return archive_damaged(&p->source,
                               "the inputs or outputs of an executable differ from those of its entry");
    TRY(divide_inputs(p, entry, &inputs, m));
    return load_programs(p, entry, &m->root, &programs);
}

static gw_status refuse_host_nodes(const package *p, const json *entries) {
    char names[NAMES] = "";
    JSON_EACH(entry, entries)
        decode_host_nodes(json_member(entry, "executable"), names, sizeof names);
    if (!*names)
        return GW_STATUS_OK;
    return fail(GW_STATUS_UNSUPPORTED,
                "%s runs nodes in Python, which the C interface does not support: %s. Run it in Python, or "
                "compile it "
                "without them (graphwright inspect shows where they are)",
                p->where, names);
}

static int64_t count_inputs(const json *entries) {
    int64_t count = 0;
    JSON_EACH(entry, entries)
        count += json_count(json_member(entry, "inputs"));
    return count;
}

static gw_status open_entries(package *p) {
    const json *entries = json_member(p->manifest.values, "entries");
    size_t count = (size_t)json_count(entries);
    if (count == 0)
        return archive_damaged(&p->source, "it has no entries");
    TRY(refuse_host_nodes(p, entries));
    p->models = pool_allocate(&p->memory, count, sizeof *p->models);
    p->states = pool_allocate(&p->memory, (size_t)count_inputs(entries), sizeof *p->states);
    if (!p->models || !p->states)
        return fail_memory();
    JSON_EACH(entry, entries)
        TRY(open_entry(p, entry, &p->models[p->model_count++]));
    return GW_STATUS_OK;
}

/* ---- packages ---- */

static gw_status read_all(package *p, const gw_options *options) {
    block content = {0};
    p->where = pool_copy(&p->memory, p->source.where);
    if (!p->where)
        return fail_memory();
    TRY(read_manifest(p));
    TRY(check_trust(p, options));
    TRY(link_choose_isa(p));
    TRY(link_member(p, "weights.safetensors", &content));
    TRY(weights_read(&p->weights, &p->source, &content));
    TRY(packs_apply(p));
    return open_entries(p);
}

gw_status package_open(package *p, const archive *source, const gw_options *options) {
    *p = (package){.source = *source, .arenas = {.bound = ARENAS}};
    pthread_mutex_init(&p->states_lock, NULL);
    gw_status status = read_all(p, options);
    archive_close(&p->source);
    return status;
}

static void free_executable(executable *e) {
    for (size_t i = 0; i < e->case_count; i++)
        free_executable(&e->cases[i]);
    for (size_t i = 0; e->kind == STEPS && e->steps && i < e->steps->step_count; i++)
        free_executable(&e->steps->steps[i].callee);
    gw_linked_free(&e->linked);
    block_free(&e->tasks);
}

void package_close(package *p) {
    for (size_t i = 0; i < p->model_count; i++)
        free_executable(&p->models[i].root);
    gw_arena_pool_clear(&p->arenas);
    for (size_t i = 0; i < p->object_count; i++)
        gw_unload(p->objects[i].handle);
    if (p->kernels)
        gw_unload(p->kernels);
    for (size_t i = 0; i < p->state_count; i++)
        block_free(&p->states[i].content);
    free(p->objects);
    weights_free(&p->weights);
    block_free(&p->packed);
    json_free(&p->manifest);
    block_free(&p->manifest_text);
    pool_free(&p->memory);
    pthread_mutex_destroy(&p->states_lock);
}
