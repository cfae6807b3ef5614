#include "decode.h"

#include <stdio.h>
#include <string.h>

#include "decode_steps.h"

enum { MOST_DEPTH = 32, HOST_DEPTH = 64 }; /* MAX_DEPTH of executable/encode.py */

/* ---- inputs and outputs ---- */

static gw_status decode_shape(package *p, const json *shape, gw_tensor_info *info) {
    if (json_count(shape) > GW_MAX_RANK)
        return archive_damaged(&p->source, "an input or output has too many axes");
    info->rank = (int)json_count(shape);
    int64_t *sizes = pool_allocate(&p->memory, (size_t)info->rank, sizeof *sizes);
    const char **symbols = pool_allocate(&p->memory, (size_t)info->rank, sizeof *symbols);
    if (!sizes || !symbols)
        return fail_memory();
    int axis = 0;
    JSON_EACH(item, shape) {
        symbols[axis] = json_text(item);
        sizes[axis] = -1;
        if (!symbols[axis] && (!json_integer(item, &sizes[axis]) || sizes[axis] < 0))
            return archive_damaged(&p->source, "an input or output has an invalid size");
        axis++;
    }
    info->sizes = sizes;
    info->symbols = symbols;
    return GW_STATUS_OK;
}

gw_status decode_info(package *p, const json *plain, gw_tensor_info *info) {
    if (json_count(plain) != 3)
        return archive_damaged(&p->source, "an input or output is malformed");
    const json *name = json_first(plain), *dtype = name + name->span, *shape = dtype + dtype->span;
    info->name = json_text(name);
    info->rank = -1;
    if (!info->name || !json_text(dtype))
        return archive_damaged(&p->source, "an input or output is malformed");
    if (!dtype_named(json_text(dtype), &info->dtype))
        return fail(GW_STATUS_UNSUPPORTED,
                    "%s: %s is of type %s, which the C interface does not support: run it in Python",
                    p->where, info->name, json_text(dtype));
    if (json_is_null(shape))
        return GW_STATUS_OK;
    if (shape->kind != JSON_LIST)
        return archive_damaged(&p->source, "an input or output is malformed");
    return decode_shape(p, shape, info);
}

gw_status decode_infos(package *p, const json *list, infos *decoded) {
    if (!list || list->kind != JSON_LIST)
        return archive_damaged(&p->source, "it has no list of inputs or outputs");
    decoded->at = pool_allocate(&p->memory, (size_t)json_count(list), sizeof *decoded->at);
    if (!decoded->at)
        return fail_memory();
    JSON_EACH(item, list)
        TRY(decode_info(p, item, &decoded->at[decoded->count++]));
    return GW_STATUS_OK;
}

/* ---- executables ---- */

bool same_dtypes(const infos *a, const infos *b) {
    for (size_t i = 0; i < a->count && i < b->count; i++)
        if (a->at[i].dtype != b->at[i].dtype)
            return false;
    return a->count == b->count;
}

static gw_status decode_states(package *p, const json *list, executable *decoded) {
    decoded->is_state = pool_allocate(&p->memory, decoded->inputs.count, sizeof *decoded->is_state);
    if (!decoded->is_state)
        return fail_memory();
    JSON_EACH(item, list) {
        int64_t number = -1;
        if (!json_integer(item, &number) || number < 0 || (uint64_t)number >= decoded->inputs.count ||
            decoded->is_state[number])
            return archive_damaged(&p->source, "a state is not an input, or is listed twice");
        decoded->is_state[number] = true;
    }
    return GW_STATUS_OK;
}

static gw_status decode_at(package *p, const json *plain, executable *decoded, int depth);
static gw_status decode_host(package *p, const json *plain, executable *decoded, int depth);

static gw_status decode_cases(package *p, const json *plain, executable *decoded, int depth) {
    const json *cases = json_member(plain, "cases");
    const char *otherwise = json_text_of(plain, "otherwise");
    if (!otherwise || (strcmp(otherwise, "error") != 0 && strcmp(otherwise, "compile") != 0))
        return archive_damaged(&p->source, "an executable is of an unknown kind");
    decoded->compiles = strcmp(otherwise, "compile") == 0;
    decoded->cases = pool_allocate(&p->memory, (size_t)json_count(cases), sizeof *decoded->cases);
    if (!decoded->cases)
        return fail_memory();
    JSON_EACH(item, cases) {
        executable *made = &decoded->cases[decoded->case_count++];
        TRY(decode_at(p, item, made, depth + 1));
        bool fits = same_dtypes(&made->inputs, &decoded->inputs);
        fits = fits && same_dtypes(&made->outputs, &decoded->outputs);
        if (!fits || memcmp(made->is_state, decoded->is_state, decoded->inputs.count) != 0)
            return archive_damaged(&p->source,
                                   "a case has other inputs, outputs or states than its dispatch");
    }
    return GW_STATUS_OK;
}

static gw_status decode_at(package *p, const json *plain, executable *decoded, int depth) {
    const char *kind = json_text_of(plain, "kind");
    if (depth > MOST_DEPTH || !kind)
        return archive_damaged(&p->source, "executables are malformed, or nest too deeply");
    if (strcmp(kind, "host") == 0)
        return decode_host(p, plain, decoded, depth);
    TRY(decode_infos(p, json_member(plain, "inputs"), &decoded->inputs));
    TRY(decode_infos(p, json_member(plain, "outputs"), &decoded->outputs));
    TRY(decode_states(p, json_member(plain, "states"), decoded));
    decoded->guards = json_member(plain, "guards");
    if (strcmp(kind, "dispatch") == 0) {
        decoded->kind = DISPATCH;
        return decode_cases(p, plain, decoded, depth);
    }
    decoded->kind = PROGRAM;
    return strcmp(kind, "program") == 0 ? GW_STATUS_OK
                                        : archive_damaged(&p->source, "an executable is of an unknown kind");
}

/* Decodes a host program as an executable: its inputs and outputs are values of the host program. */
static gw_status decode_host(package *p, const json *plain, executable *decoded, int depth) {
    decoded->kind = STEPS;
    TRY(decode_steps(p, plain, &decoded->steps, decode_at, depth));
    const host_program *steps = decoded->steps;
    decoded->inputs = (infos){steps->input_count, steps->values.at};
    decoded->outputs.at = pool_allocate(&p->memory, steps->results.count, sizeof *decoded->outputs.at);
    decoded->is_state = pool_allocate(&p->memory, steps->input_count, sizeof *decoded->is_state);
    if (!decoded->outputs.at || !decoded->is_state)
        return fail_memory();
    for (size_t i = 0; i < steps->results.count; i++)
        decoded->outputs.at[decoded->outputs.count++] = steps->values.at[steps->results.at[i]];
    return GW_STATUS_OK;
}

gw_status decode_executable(package *p, const json *plain, executable *decoded) {
    return decode_at(p, plain, decoded, 0);
}

/* ---- nodes that run in Python ---- */

static void add_name(const char *op, const char *node, const char *reason, char *text, size_t size) {
    size_t end = strlen(text);
    snprintf(text + end, size - end, "%s%s (node %s%s%s)", end ? ", " : "", op, node, *reason ? ": " : "",
             reason);
}

static void add_hosts(const json *plain, char *text, size_t size, int depth) {
    if (depth > HOST_DEPTH)
        return;
    JSON_EACH(item, json_member(plain, "cases"))
        add_hosts(item, text, size, depth + 1);
    JSON_EACH(step, json_member(plain, "steps")) {
        const char *op = json_text_of(step, "op"), *node = json_text_of(step, "node");
        const char *reason = json_text_of(step, "reason");
        if (op)
            add_name(op, node ? node : "", reason ? reason : "", text, size);
        JSON_EACH(body, json_member(step, "bodies"))
            add_hosts(body, text, size, depth + 1);
        add_hosts(json_member(step, "callee"), text, size, depth + 1);
    }
}

void decode_host_nodes(const json *plain, char *text, size_t size) { add_hosts(plain, text, size, 0); }
