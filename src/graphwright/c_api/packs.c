#include "packs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "linking.h"

enum { ALIGNMENT = 64, NAME = 64 };

/* A tensor of the target. */
typedef struct {
    const char *name;
    const char *source; /* its bytes, or the bytes to be packed */
    placement from, to; /* if `is_packed` */
    bool is_packed;
    size_t item, size, start;
} part;

typedef struct {
    package *p;
    const json *plain;
    weights own; /* the weights that only this target reads */
    part *parts;
    size_t count;
} packer;

static gw_status damaged(const packer *k) {
    return fail(GW_STATUS_PACKAGE, "%s: the weights of target %s are malformed: fetch the file again",
                k->p->where, k->p->isa);
}

static size_t aligned(size_t size) { return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* ---- the source of each tensor ---- */

/* Takes the tensor from `w` unchanged. */
static gw_status take(const packer *k, const weights *w, part *made) {
    const tensor *found = weights_find(w, made->name);
    if (!found)
        return damaged(k);
    made->source = w->data + found->start;
    made->size = found->size;
    return GW_STATUS_OK;
}

/* name, [shape, layout], [new shape, new layout] */
static gw_status take_packed(const packer *k, const json *how, part *made) {
    const json *there = json_first(how), *old = json_count(how) == 3 ? json_next(how, there) : NULL;
    const json *view = old ? json_next(how, old) : NULL;
    const tensor *found = json_text(there) ? weights_find(&k->p->weights, json_text(there)) : NULL;
    gw_dtype dtype;
    int rank;
    int64_t sizes[GW_MAX_RANK];
    size_t bytes;
    if (!found || !tensor_type(found, &dtype, &rank, sizes) || json_count(old) != 2 ||
        json_count(view) != 2 ||
        !layout_read(json_first(old), json_next(old, json_first(old)), &made->from) ||
        !layout_read(json_first(view), json_next(view, json_first(view)), &made->to))
        return damaged(k);
    made->item = gw_dtype_bytes(dtype);
    if (__builtin_mul_overflow((size_t)made->from.room, made->item, &bytes) || bytes != found->size ||
        __builtin_mul_overflow((size_t)made->to.room, made->item, &made->size) ||
        made->from.elements != made->to.elements)
        return damaged(k);
    made->source = k->p->weights.data + found->start;
    made->is_packed = true;
    return GW_STATUS_OK;
}

static gw_status read_parts(packer *k) {
    const json *list = json_member(k->plain, "made");
    k->parts = calloc((size_t)json_count(list) + 1, sizeof *k->parts);
    if (!k->parts)
        return fail_memory();
    JSON_EACH(item, list) {
        part *made = &k->parts[k->count++];
        const json *how = json_count(item) == 2 ? json_next(item, json_first(item)) : NULL;
        made->name = how ? json_text(json_first(item)) : NULL;
        if (!made->name)
            return damaged(k);
        if (how->kind == JSON_LIST)
            TRY(take_packed(k, how, made));
        else if (json_text(how) && strcmp(json_text(how), "own") == 0)
            TRY(take(k, &k->own, made));
        else
            TRY(take(k, &k->p->weights, made));
    }
    return GW_STATUS_OK;
}

/* ---- offsets ---- */

/* The offset of an earlier tensor with the same bytes, or else a new one at `end`. */
static size_t offset_of(const packer *k, size_t number, const char *data, size_t end) {
    const part *made = &k->parts[number];
    for (size_t i = 0; i < number && made->size > 0; i++)
        if (k->parts[i].size == made->size && memcmp(data + k->parts[i].start, data + end, made->size) == 0)
            return k->parts[i].start;
    return end;
}

static gw_status write_part(const part *made, char *out) {
    memset(out, 0, aligned(made->size));
    if (made->is_packed)
        return layout_copy(&made->from, made->source, &made->to, out, made->item) ? GW_STATUS_OK
                                                                                  : fail_memory();
    if (made->size > 0)
        memcpy(out, made->source, made->size);
    return GW_STATUS_OK;
}

/* Whether the manifest agrees with `is_first`, which says that no earlier tensor has the same bytes: it lists
   just these tensors. */
static bool is_listed(const packer *k, const part *made, bool is_first) {
    return (json_member(json_member(k->plain, "tensors"), made->name) != NULL) == is_first;
}

static gw_status write_parts(packer *k, block *packed) {
    size_t total = 0, end = 0;
    for (size_t i = 0; i < k->count; i++)
        if (k->parts[i].size > SIZE_MAX / 2 ||
            __builtin_add_overflow(total, aligned(k->parts[i].size), &total))
            return damaged(k);
    if (!block_allocate(packed, total))
        return fail_memory();
    for (size_t i = 0; i < k->count; i++) {
        part *made = &k->parts[i];
        TRY(write_part(made, packed->data + end));
        made->start = offset_of(k, i, packed->data, end);
        if (!is_listed(k, made, made->start == end))
            return damaged(k);
        end += made->start == end ? aligned(made->size) : 0;
    }
    packed->size = end;
    return GW_STATUS_OK;
}

/* ---- packs ---- */

static gw_status read_own(packer *k) {
    char name[NAME];
    block content = {0};
    snprintf(name, sizeof name, "weights/%s.safetensors", k->p->isa);
    if (!archive_find(&k->p->source, name))
        return GW_STATUS_OK;
    TRY(link_member(k->p, name, &content));
    return weights_read(&k->own, &k->p->source, &content);
}

static gw_status pack(packer *k) {
    TRY(read_own(k));
    TRY(read_parts(k));
    TRY(write_parts(k, &k->p->packed));
    k->p->task_weights = k->p->packed.data;
    k->p->task_weight_bytes = k->p->packed.size;
    return GW_STATUS_OK;
}

gw_status packs_apply(package *p) {
    packer k = {.p = p, .plain = json_member(json_member(p->manifest.values, "packs"), p->isa)};
    p->task_weights = p->weights.data;
    p->task_weight_bytes = p->weights.size;
    if (!k.plain)
        return GW_STATUS_OK;
    gw_status status = pack(&k);
    weights_free(&k.own);
    free(k.parts);
    return status;
}
