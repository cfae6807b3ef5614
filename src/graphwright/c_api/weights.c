#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { ALIGNMENT = 64, LENGTH = 8, LINE = 64, WORD = 8, MOST_RUNS = 1 << 12, DTYPE_NAME = 16 };
#define MOST_EXPANDED (UINT64_C(1) << 31)

static uint64_t aligned(uint64_t size) { return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static gw_status bad_header(const archive *a, const char *reason) {
    return fail(GW_STATUS_PACKAGE, "%s: the header of the weights is malformed: %s", a->where, reason);
}

/* ---- an entry of the header ---- */

static bool ends_with(const char *text, const char *ending) {
    size_t size = strlen(text), behind = strlen(ending);
    return size >= behind && strcmp(text + size - behind, ending) == 0;
}

/* The name after "as", or NULL. */
static const char *first_of(const char *kind) {
    const char *found = strstr(kind, "] as ");
    return found ? found + strlen("] as ") : NULL;
}

/* Sizes as text: "[2, 3]". */
static bool read_sizes(const char *text, int *rank, int64_t *sizes) {
    *rank = 0;
    if (*text++ != '[')
        return false;
    while (*text != ']') {
        char *end;
        if (*rank == GW_MAX_RANK || (*rank > 0 && (*text++ != ',' || *text++ != ' ')) || *text < '0' ||
            *text > '9')
            return false;
        sizes[(*rank)++] = strtoll(text, &end, 10);
        text = end;
    }
    return true;
}

static bool list_sizes(const json *list, int *rank, int64_t *sizes) {
    *rank = 0;
    JSON_EACH(item, list)
        if (*rank == GW_MAX_RANK || !json_integer(item, &sizes[(*rank)++]) || sizes[*rank - 1] < 0)
            return false;
    return list && list->kind == JSON_LIST;
}

bool tensor_type(const tensor *t, gw_dtype *dtype, int *rank, int64_t *sizes) {
    char name[DTYPE_NAME] = "";
    size_t length = strcspn(t->kind, " ");
    if (length >= sizeof name)
        return false;
    memcpy(name, t->kind, length);
    if (!dtype_named(name, dtype))
        return false;
    const char *text = t->kind[length] ? t->kind + length + 1 : NULL;
    return text ? read_sizes(text, rank, sizes) : list_sizes(json_member(t->entry, "shape"), rank, sizes);
}

static bool is_text(const tensor *t) {
    return strcspn(t->kind, " ") == 6 && strncmp(t->kind, "string", 6) == 0;
}

/* The number of bytes by its dtype and its shape. */
static bool stated_size(const tensor *t, uint64_t *size) {
    gw_dtype dtype;
    int rank;
    int64_t sizes[GW_MAX_RANK];
    if (!tensor_type(t, &dtype, &rank, sizes))
        return false;
    *size = gw_dtype_bytes(dtype);
    for (int axis = 0; axis < rank; axis++)
        if (__builtin_mul_overflow(*size, (uint64_t)sizes[axis], size))
            return false;
    return true;
}

/* The range of its bytes in the file, which has `size` bytes of data. */
static bool read_range(tensor *t, uint64_t size) {
    const json *offsets = json_member(t->entry, "data_offsets");
    int64_t start = -1, end = -1;
    if (json_count(offsets) != 2 || !json_integer(json_first(offsets), &start) ||
        !json_integer(json_next(offsets, json_first(offsets)), &end))
        return false;
    if (start < 0 || end < start || (uint64_t)end > size)
        return false;
    t->stored = (uint64_t)start;
    t->stored_size = (uint64_t)(end - start);
    return true;
}

/* ---- tensors by name ---- */

typedef struct {
    const char *name;
    const json *value;
} named;

static int by_name(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* The members of an object, sorted by name; NULL if a name occurs twice or memory is exhausted. */
static named *sorted_members(const json *object, size_t *count) {
    named *table = calloc((size_t)(object->count / 2) + 1, sizeof *table);
    *count = 0;
    if (!table)
        return NULL;
    JSON_EACH_KEY(key, object)
        table[(*count)++] = (named){key->text, key + 1};
    qsort(table, *count, sizeof *table, by_name);
    for (size_t i = 1; i < *count; i++)
        if (by_name(&table[i - 1], &table[i]) == 0) {
            free(table);
            return NULL;
        }
    return table;
}

static const json *find(const named *table, size_t count, const char *name) {
    const named key = {.name = name}, *found = bsearch(&key, table, count, sizeof key, by_name);
    return found ? found->value : NULL;
}

/* Of a tensor in the object of kinds, whose keys and texts follow one another. */
static size_t position(const json *kinds, const json *kind) { return (size_t)(kind - kinds - 2) / 2; }

const tensor *weights_find(const weights *w, const char *name) {
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->tensors[i].name, name) == 0)
            return &w->tensors[i];
    return NULL;
}

/* ---- the header ---- */

typedef struct {
    const archive *a;
    weights *w;
    const json *kinds;
    named *entries, *names; /* of the header; of the kinds */
    size_t entry_count, name_count;
    uint64_t data_size;
    bool expands; /* whether some tensor is stored as run lengths */
} reader;

static gw_status read_own(reader *r, tensor *t) {
    uint64_t size = 0;
    t->entry = find(r->entries, r->entry_count, t->name);
    t->repeats = ends_with(t->kind, "] runs");
    if (!t->entry || !read_range(t, r->data_size))
        return bad_header(r->a, "a tensor is outside the data");
    if (!is_text(t) && !stated_size(t, &size))
        return bad_header(r->a, "a tensor has no type");
    t->size = t->repeats ? size : t->stored_size;
    if (is_text(t) ? t->repeats : t->size != size)
        return bad_header(r->a, "the size of a tensor is wrong");
    r->expands = r->expands || t->repeats;
    return GW_STATUS_OK;
}

/* A tensor with the bytes of an earlier one. */
static gw_status read_same(reader *r, tensor *t) {
    const json *kind = find(r->names, r->name_count, first_of(t->kind));
    uint64_t size = 0;
    if (!kind || &r->w->tensors[position(r->kinds, kind)] >= t)
        return bad_header(r->a, "a tensor has the bytes of one that is not before it");
    const tensor *first = &r->w->tensors[position(r->kinds, kind)];
    t->size = first->size, t->stored = first->stored, t->stored_size = first->stored_size;
    if (!is_text(t) && (!stated_size(t, &size) || size != t->size))
        return bad_header(r->a, "the size of a tensor is wrong");
    return GW_STATUS_OK;
}

static gw_status read_tensors(reader *r) {
    r->entries = sorted_members(r->w->header.values, &r->entry_count);
    r->names = sorted_members(r->kinds, &r->name_count);
    r->w->tensors = calloc(r->name_count + 1, sizeof *r->w->tensors);
    if (!r->entries || !r->names || !r->w->tensors)
        return bad_header(r->a, "two tensors have one name, or there is no memory for it");
    JSON_EACH_KEY(key, r->kinds) {
        tensor *t = &r->w->tensors[r->w->count++];
        *t = (tensor){.name = key->text, .kind = json_text(key + 1)};
        if (!t->kind)
            return bad_header(r->a, "a tensor has no type");
        TRY(first_of(t->kind) ? read_same(r, t) : read_own(r, t));
        t->start = t->stored;
    }
    return GW_STATUS_OK;
}

/* ---- tensors that are stored as run lengths ---- */

static bool is_unit(int64_t lines) {
    static const int units[] = {1, 2, 3, 4, 6, 8, 12, 16};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i] == lines)
            return true;
    return false;
}

/* Writes `size` bytes, whole lines, that `runs` stands for (see package/run_length.py): lines of a unit,
   number of runs, the count of each, their units, the rest. */
static bool expand(const char *runs, uint64_t runs_size, char *out, uint64_t size) {
    int64_t head[2], total = 0;
    if (runs_size < sizeof head)
        return false;
    memcpy(head, runs, sizeof head);
    if (!is_unit(head[0]))
        return false;
    uint64_t unit = (uint64_t)head[0] * LINE, whole = size / unit, rest = size % unit;
    uint64_t number = (uint64_t)head[1];
    if (number == 0 || number > MOST_RUNS || number > whole ||
        runs_size != sizeof head + number * (WORD + unit) + rest)
        return false;
    const char *counts = runs + sizeof head, *units = counts + number * WORD;
    for (uint64_t i = 0; i < number; i++) {
        int64_t count;
        memcpy(&count, counts + i * WORD, sizeof count);
        if (count <= 0 || (uint64_t)count > whole - (uint64_t)total)
            return false;
        total += count;
        for (; count > 0; count--, out += unit)
            memcpy(out, units + i * unit, unit);
    }
    memcpy(out, units + number * unit, rest);
    return (uint64_t)total == whole;
}

/* Assigns consecutive addresses to the tensors; `end` is the size of the memory. */
static gw_status lay_out(reader *r, uint64_t *end) {
    uint64_t repeated = 0;
    *end = 0;
    for (size_t i = 0; i < r->w->count; i++) {
        tensor *t = &r->w->tensors[i];
        const char *first = first_of(t->kind);
        if (first) {
            t->start = r->w->tensors[position(r->kinds, find(r->names, r->name_count, first))].start;
            continue;
        }
        if (t->repeats && (t->size > MOST_EXPANDED || (repeated += aligned(t->size)) > MOST_EXPANDED))
            return bad_header(r->a, "run-length encoded tensors expand to too much memory");
        t->start = *end;
        *end = aligned(*end + t->size);
    }
    return GW_STATUS_OK;
}

static gw_status expand_tensors(reader *r, const char *stored) {
    weights *w = r->w;
    uint64_t end;
    TRY(lay_out(r, &end));
    if (!block_allocate(&w->expanded, end))
        return fail_memory();
    for (size_t i = 0; i < w->count; i++) {
        const tensor *t = &w->tensors[i];
        if (first_of(t->kind))
            continue;
        char *out = w->expanded.data + t->start;
        uint64_t size = aligned(t->start + t->size) - t->start;
        memset(out + t->size, 0, size - t->size);
        if (!t->repeats)
            memcpy(out, stored + t->stored, t->size);
        else if (!expand(stored + t->stored, t->stored_size, out, size))
            return bad_header(r->a, "the size of the runs does not match their tensor");
    }
    w->data = w->expanded.data;
    w->size = end;
    return GW_STATUS_OK;
}

/* ---- weights ---- */

static gw_status read_header(reader *r) {
    weights *w = r->w;
    uint64_t length = 0;
    const char *fault;
    if (w->content.size < LENGTH)
        return bad_header(r->a, "it is too short");
    memcpy(&length, w->content.data, LENGTH);
    if (length > w->content.size - LENGTH)
        return bad_header(r->a, "it is longer than the file");
    if (!json_parse(&w->header, w->content.data + LENGTH, length, &fault))
        return bad_header(r->a, fault);
    r->kinds = json_member(w->header.values, "__metadata__");
    if (!r->kinds || r->kinds->kind != JSON_OBJECT)
        return bad_header(r->a, "it does not describe its tensors");
    w->data = w->content.data + LENGTH + length;
    w->size = r->data_size = w->content.size - LENGTH - length;
    TRY(read_tensors(r));
    if (!r->expands)
        return GW_STATUS_OK;
    TRY(expand_tensors(r, w->data));
    block_free(&w->content);
    return GW_STATUS_OK;
}

gw_status weights_read(weights *w, const archive *a, block *content) {
    reader r = {.a = a, .w = w};
    *w = (weights){.content = *content};
    *content = (block){0};
    gw_status status = read_header(&r);
    free(r.entries), free(r.names);
    return status;
}

void weights_free(weights *w) {
    block_free(&w->content), block_free(&w->expanded);
    json_free(&w->header);
    free(w->tensors);
    *w = (weights){0};
}
