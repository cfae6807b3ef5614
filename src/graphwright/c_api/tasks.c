#include "tasks.h"

#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "program.h"

enum { FIRST_WORDS = 1024 };

typedef struct {
    int64_t *words;
    size_t count, capacity;
    bool failed, lacks_memory;
} writer;

static void put(writer *w, int64_t word) {
    if (w->failed)
        return;
    if (w->count == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : FIRST_WORDS;
        int64_t *grown = realloc(w->words, capacity * sizeof *grown);
        w->failed = w->lacks_memory = !grown;
        if (!grown)
            return;
        w->words = grown, w->capacity = capacity;
    }
    w->words[w->count++] = word;
}

static void put_number(writer *w, const json *value) {
    int64_t number = 0;
    w->failed = w->failed || !json_integer(value, &number);
    put(w, number);
}

static void put_items(writer *w, const json *list) {
    JSON_EACH(item, list)
        put_number(w, item);
}

static void put_list(writer *w, const json *list) {
    w->failed = w->failed || !list || list->kind != JSON_LIST;
    put(w, json_count(list));
    put_items(w, list);
}

/* The first field of a list that represents a record of `count` fields. */
static const json *record(writer *w, const json *list, int64_t fields) {
    w->failed = w->failed || json_count(list) != fields;
    return w->failed ? NULL : json_first(list);
}

/* The next field; NULL after an error. */
static const json *behind(const writer *w, const json *field) {
    return w->failed || !field ? NULL : field + field->span;
}

static void put_dtype(writer *w, const json *value) {
    gw_dtype dtype = GW_DTYPE_U8;
    const char *name = json_text(value);
    w->failed = w->failed || !name || !dtype_named(name, &dtype);
    put(w, (int64_t)gw_dtype_bytes(dtype));
}

/* name, dtype, dims */
static void put_binding(writer *w, const json *binding) {
    const json *dtype = behind(w, record(w, binding, 3));
    put_dtype(w, dtype);
    put_list(w, behind(w, dtype));
}

/* code, a, b, note */
static void put_instruction(writer *w, const json *instruction) {
    const json *field = record(w, instruction, 4);
    for (int i = 0; i < 3; i++, field = behind(w, field))
        put_number(w, field);
}

/* storage, size, index, conflicts, name */
static void put_buffer(writer *w, const json *buffer) {
    const json *field = record(w, buffer, 5);
    for (int i = 0; i < 3; i++, field = behind(w, field))
        put_number(w, field);
    put_list(w, field);
}

/* null, [kernel] or [buffer, offset] */
static void put_operand(writer *w, const json *operand) {
    bool is_absent = json_is_null(operand);
    int64_t fields = json_count(operand);
    w->failed = w->failed || !(is_absent || fields == 1 || fields == 2);
    if (is_absent) {
        put(w, GW_OPERAND_NULL);
        put(w, 0);
        return;
    }
    if (fields == 1)
        put(w, GW_OPERAND_FUNCTION);
    put_items(w, operand);
}

/* kind, operands, writes, kernel, args, grid, scratch, work, blocks, after, stream, name */
static void put_task(writer *w, const json *task) {
    enum { KIND, OPERANDS, WRITES, KERNEL, ARGS, GRID, SCRATCH, WORK, BLOCKS, AFTER, STREAM, NAME, FIELDS };
    const json *fields[FIELDS];
    fields[KIND] = record(w, task, FIELDS);
    for (int i = KIND + 1; i < FIELDS; i++)
        fields[i] = behind(w, fields[i - 1]);
    put_number(w, fields[KIND]);
    put_number(w, fields[KERNEL]);
    put_number(w, fields[GRID]);
    put_number(w, fields[SCRATCH]);
    put_number(w, fields[WORK]);
    put(w, json_count(fields[OPERANDS]));
    JSON_EACH(operand, fields[OPERANDS])
        put_operand(w, operand);
    put_list(w, fields[WRITES]);
    put_list(w, fields[ARGS]);
    put_list(w, fields[BLOCKS]);
    put_list(w, fields[AFTER]);
}

/* first, count */
static void put_block(writer *w, const json *block) {
    const json *first = record(w, block, 2);
    put_number(w, first);
    put_number(w, behind(w, first));
}

static void put_kernel(writer *w, const json *kernel) { record(w, kernel, 2); /* names are not encoded */ }

gw_status tasks_encode(const json *tasks, const archive *a, int64_t **words, size_t *count) {
    static const struct {
        const char *name;
        void (*put)(writer *w, const json *item);
    } sections[] = {
        {"inputs", put_binding}, {"outputs", put_binding}, {"shape", put_instruction},
        {"buffers", put_buffer}, {"tasks", put_task},      {"blocks", put_block},
        {"kernels", put_kernel},
    };
    enum { SECTIONS = sizeof sections / sizeof *sections };
    writer w = {0};
    put(&w, GW_MAGIC);
    put(&w, GW_VERSION);
    for (int i = 0; i < SECTIONS; i++)
        put(&w, json_count(json_member(tasks, sections[i].name)));
    put(&w, 0); /* no host functions */
    for (int i = 0; i < SECTIONS; i++) {
        const json *section = json_member(tasks, sections[i].name);
        w.failed = w.failed || !section || section->kind != JSON_LIST;
        JSON_EACH(item, section)
            sections[i].put(&w, item);
    }
    *words = w.words, *count = w.count;
    if (!w.failed)
        return GW_STATUS_OK;
    free(w.words);
    *words = NULL;
    return w.lacks_memory ? fail_memory() : archive_damaged(a, "the tasks of a program are malformed");
}
