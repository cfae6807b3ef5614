#include "decode_steps.h"

#include <stdlib.h>
#include <string.h>

#include "decode.h"

static gw_status malformed(const package *p) {
    return archive_damaged(&p->source, "a host program is malformed");
}

static gw_status unsupported(const package *p, const char *what) {
    return fail(GW_STATUS_UNSUPPORTED,
                "%s: the C interface does not support %s between programs: run it in Python", p->where, what);
}

/* A list of numbers below `end`. */
static gw_status decode_numbers(package *p, const json *list, size_t end, numbers *decoded) {
    decoded->at = pool_allocate(&p->memory, (size_t)json_count(list), sizeof *decoded->at);
    if (!decoded->at)
        return fail_memory();
    JSON_EACH(item, list) {
        int64_t number = -1;
        if (!json_integer(item, &number) || number < 0 || (uint64_t)number >= end)
            return malformed(p);
        decoded->at[decoded->count++] = (size_t)number;
    }
    return list && list->kind == JSON_LIST ? GW_STATUS_OK : malformed(p);
}

/* ---- sizes ---- */

/* The index of a symbol, which is added if it is new; the table has room for it. */
static size_t symbol_of(host_program *h, const char *name) {
    size_t number = 0;
    while (number < h->symbol_count && strcmp(h->symbols[number], name) != 0)
        number++;
    if (number == h->symbol_count)
        h->symbols[h->symbol_count++] = name;
    return number;
}

static bool is_name(const char *text) {
    if (!*text || (*text >= '0' && *text <= '9'))
        return false;
    for (; *text; text++)
        if (strchr(" +-*/%()[],", *text))
            return false;
    return true;
}

/* Reads "N" or "2*N"; other expressions do not determine a symbol. */
static gw_status decode_rule(package *p, host_program *h, const char *text, axis_rule *rule) {
    char *behind = NULL;
    int64_t scale = text ? strtoll(text, &behind, 10) : 0;
    if (!text)
        return GW_STATUS_OK;
    if (behind > text && scale > 0 && *behind == '*')
        text = behind + 1;
    else
        scale = 1;
    if (!is_name(text))
        return unsupported(p, "sizes computed from other sizes");
    *rule = (axis_rule){symbol_of(h, text), scale};
    return GW_STATUS_OK;
}

static gw_status decode_rules(package *p, host_program *h) {
    h->rules = pool_allocate(&p->memory, h->input_count, sizeof *h->rules);
    if (!h->rules)
        return fail_memory();
    for (size_t i = 0; i < h->input_count; i++) {
        const gw_tensor_info *info = &h->values.at[i];
        size_t rank = info->rank < 0 ? 0 : (size_t)info->rank;
        h->rules[i] = pool_allocate(&p->memory, rank, sizeof **h->rules);
        if (!h->rules[i])
            return fail_memory();
        for (size_t axis = 0; axis < rank; axis++)
            TRY(decode_rule(p, h, info->symbols[axis], &h->rules[i][axis]));
    }
    return GW_STATUS_OK;
}

/* ---- steps ---- */

static gw_status decode_shapes(package *p, const json *shapes, step *s) {
    size_t number = 0;
    s->shapes = pool_allocate(&p->memory, s->outputs.count, sizeof *s->shapes);
    if (!s->shapes)
        return fail_memory();
    if ((size_t)json_count(shapes) != s->outputs.count || s->inputs.count != s->outputs.count + 1)
        return malformed(p);
    JSON_EACH(shape, shapes) {
        bound_shape *made = &s->shapes[number++];
        if (json_count(shape) > GW_MAX_RANK)
            return malformed(p);
        made->sizes = pool_allocate(&p->memory, (size_t)json_count(shape), sizeof *made->sizes);
        if (!made->sizes)
            return fail_memory();
        JSON_EACH(size, shape)
            if (!json_integer(size, &made->sizes[made->rank]) || made->sizes[made->rank++] < -1)
                return malformed(p);
    }
    return GW_STATUS_OK;
}

static gw_status decode_bound(package *p, const json *plain, host_program *h, step *s) {
    const infos *values = &h->values;
    TRY(decode_shapes(p, json_member(plain, "shapes"), s));
    if (values->at[s->inputs.at[0]].dtype != GW_DTYPE_I64)
        return malformed(p);
    for (size_t i = 0; i < s->outputs.count; i++)
        if (values->at[s->outputs.at[i]].dtype != values->at[s->inputs.at[i + 1]].dtype)
            return malformed(p);
    s->symbol = symbol_of(h, json_text_of(plain, "bind"));
    s->node = json_text_of(plain, "node");
    return s->node ? GW_STATUS_OK : malformed(p);
}

static bool has_steps(const executable *e) {
    for (size_t i = 0; i < e->case_count; i++)
        if (has_steps(&e->cases[i]))
            return true;
    return e->kind == STEPS;
}

/* A call of a program or of a dispatch, whose inputs and outputs must have the types of the values. */
static bool fits(const host_program *h, const step *s) {
    const executable *callee = &s->callee;
    if (has_steps(callee))
        return false;
    if (callee->inputs.count != s->inputs.count + s->sizes.count || callee->outputs.count != s->outputs.count)
        return false;
    for (size_t i = 0; i < callee->inputs.count; i++) {
        gw_dtype given = i < s->inputs.count ? h->values.at[s->inputs.at[i]].dtype : GW_DTYPE_U8;
        if (callee->inputs.at[i].dtype != given || callee->is_state[i])
            return false;
    }
    for (size_t i = 0; i < s->outputs.count; i++)
        if (callee->outputs.at[i].dtype != h->values.at[s->outputs.at[i]].dtype)
            return false;
    return true;
}

static gw_status decode_call(package *p, const json *plain, host_program *h, step *s, decode_callee *callee,
                             int depth) {
    const json *sizes = json_member(plain, "sizes");
    s->is_call = true;
    s->sizes.at = pool_allocate(&p->memory, (size_t)json_count(sizes), sizeof *s->sizes.at);
    if (!s->sizes.at)
        return fail_memory();
    JSON_EACH(name, sizes) {
        if (!json_text(name))
            return malformed(p);
        s->sizes.at[s->sizes.count++] = symbol_of(h, json_text(name));
    }
    TRY(callee(p, json_member(plain, "callee"), &s->callee, depth + 1));
    return fits(h, s) ? GW_STATUS_OK : malformed(p);
}

static gw_status decode_step(package *p, const json *plain, host_program *h, step *s, decode_callee *callee,
                             int depth) {
    TRY(decode_numbers(p, json_member(plain, "inputs"), h->values.count, &s->inputs));
    TRY(decode_numbers(p, json_member(plain, "outputs"), h->values.count, &s->outputs));
    if (json_member(plain, "call"))
        return decode_call(p, plain, h, s, callee, depth);
    if (!json_text_of(plain, "bind"))
        return malformed(p);
    return decode_bound(p, plain, h, s);
}

/* Checks that each value is defined once, before it is used. */
static gw_status check_order(const package *p, const host_program *h, bool *made) {
    bool right = true;
    for (size_t i = 0; i < h->input_count; i++)
        made[i] = true;
    for (size_t i = 0; i < h->constants.count; i++) {
        right = right && !made[h->constants.at[i]];
        made[h->constants.at[i]] = true;
    }
    for (size_t i = 0; i < h->step_count; i++) {
        const step *s = &h->steps[i];
        for (size_t k = 0; k < s->inputs.count; k++)
            right = right && made[s->inputs.at[k]];
        for (size_t k = 0; k < s->outputs.count; k++) {
            right = right && !made[s->outputs.at[k]];
            made[s->outputs.at[k]] = true;
        }
    }
    for (size_t i = 0; i < h->results.count; i++)
        right = right && made[h->results.at[i]];
    return right ? GW_STATUS_OK : malformed(p);
}

/* ---- host programs ---- */

static gw_status decode_constants(package *p, const json *list, host_program *h) {
    size_t count = (size_t)json_count(list);
    h->constants.at = pool_allocate(&p->memory, count, sizeof *h->constants.at);
    h->tensors = pool_allocate(&p->memory, count, sizeof(const tensor *));
    if (!h->constants.at || !h->tensors)
        return fail_memory();
    JSON_EACH(item, list) {
        const json *digest = json_count(item) == 2 ? json_next(item, json_first(item)) : NULL;
        const tensor *found = json_text(digest) ? weights_find(&p->weights, json_text(digest)) : NULL;
        int64_t value = -1, sizes[GW_MAX_RANK];
        int rank;
        gw_dtype dtype;
        if (!found || !json_integer(json_first(item), &value) || value < 0 ||
            (uint64_t)value >= h->values.count || !tensor_type(found, &dtype, &rank, sizes) ||
            dtype != h->values.at[value].dtype)
            return malformed(p);
        h->tensors[h->constants.count] = found;
        h->constants.at[h->constants.count++] = (size_t)value;
    }
    return GW_STATUS_OK;
}

/* An upper bound on the number of symbols: at most one for each axis of an input, size of a call, and step.
 */
static size_t most_symbols(const host_program *h, const json *steps) {
    size_t most = 0;
    for (size_t i = 0; i < h->input_count; i++)
        most += h->values.at[i].rank < 0 ? 0 : (size_t)h->values.at[i].rank;
    JSON_EACH(step, steps)
        most += 1 + (size_t)json_count(json_member(step, "sizes"));
    return most;
}

static gw_status decode_all(package *p, const json *plain, host_program *h, decode_callee *callee,
                            int depth) {
    const json *steps = json_member(plain, "steps");
    int64_t inputs = -1;
    TRY(decode_infos(p, json_member(plain, "values"), &h->values));
    if (!json_integer(json_member(plain, "inputs"), &inputs) || inputs < 0 ||
        (uint64_t)inputs > h->values.count)
        return malformed(p);
    h->input_count = (size_t)inputs;
    h->symbols = pool_allocate(&p->memory, most_symbols(h, steps), sizeof *h->symbols);
    h->steps = pool_allocate(&p->memory, (size_t)json_count(steps), sizeof *h->steps);
    bool *made = pool_allocate(&p->memory, h->values.count, sizeof *made);
    if (!h->symbols || !h->steps || !made)
        return fail_memory();
    TRY(decode_rules(p, h));
    TRY(decode_constants(p, json_member(plain, "constants"), h));
    TRY(decode_numbers(p, json_member(plain, "outputs"), h->values.count, &h->results));
    JSON_EACH(item, steps)
        TRY(decode_step(p, item, h, &h->steps[h->step_count++], callee, depth));
    return check_order(p, h, made);
}

gw_status decode_steps(package *p, const json *plain, host_program **decoded, decode_callee *callee,
                       int depth) {
    *decoded = pool_allocate(&p->memory, 1, sizeof **decoded);
    if (!*decoded)
        return fail_memory();
    if (json_count(json_member(plain, "guards")) > 0 || json_count(json_member(plain, "constraints")) > 0)
        return unsupported(p, "comparisons of sizes");
    if (json_count(json_member(plain, "updates")) > 0)
        return unsupported(p, "updates of states");
    return decode_all(p, plain, *decoded, callee, depth);
}
