#include "operators.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "loader.h"

enum { LINE = 512, NAME = 256, PLANS = 16, CONTEXTS = 8, MOST_OBJECTS = 64 };

typedef struct {
    char name[NAME];
    void *handle;
} object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of these until they are filled */
static operation *operations;
static size_t operation_count;
static object objects[MOST_OBJECTS];
static int object_count;
static const char *isa; /* the folder of the parts for this CPU */
static gw_arena_pool arenas = {.bound = CONTEXTS};

/* ---- texts, line by line ---- */

typedef struct {
    const char *at, *end;
} reader;

static reader read_part(gw_part p) { return (reader){p.data, p.data ? p.data + p.size : NULL}; }

/* Copies the next line without its line feed; false at the end. */
static bool next_line(reader *r, char line[LINE]) {
    if (r->at >= r->end)
        return false;
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    size_t size = (size_t)((end ? end : r->end) - r->at);
    size = size < LINE - 1 ? size : LINE - 1;
    memcpy(line, r->at, size);
    line[size] = 0;
    r->at = end ? end + 1 : r->end;
    return true;
}

static size_t count_lines(gw_part p) {
    char line[LINE];
    size_t count = 0;
    for (reader r = read_part(p); next_line(&r, line);)
        count++;
    return count;
}

/* ---- the list of operators ---- */

/* Whether the library has kernels for the ISA `level`, and the CPU has all the instructions that they use. */
static bool serves(const char *level) {
    if (!gw_contents_part(level, "weights", "").data)
        return false;
    return !gw_contents_part(level, "bf16", "").data || gw_cpu_has_bf16();
}

static const char *level_of_this_cpu(void) {
    const char *here = gw_cpu_isa();
    if (strcmp(here, "v4") == 0 && serves("v4"))
        return "v4";
    return strcmp(here, "baseline") != 0 && serves("v3") ? "v3" : NULL;
}

/* Parses a line: the name of an operator, or the type of an input or output of its node. The type of an input
   is followed by the index of the input of the program that it feeds; -1 for none. */
static bool read_line(const char *line, operation **op, size_t most) {
    char name[NAME];
    int type;
    long fed;
    if (sscanf(line, "operator %255s", name) == 1) {
        *op = *op ? *op + 1 : operations;
        operation_count++;
        (*op)->name = strdup(name);
        (*op)->input_types = calloc(most, sizeof(int));
        (*op)->output_types = calloc(most, sizeof(int));
        (*op)->node_inputs = calloc(MOST_VALUES, sizeof(size_t));
        return (*op)->name && (*op)->input_types && (*op)->output_types && (*op)->node_inputs;
    }
    if (*op && sscanf(line, "input %d %ld", &type, &fed) == 2 && fed < MOST_VALUES) {
        if (fed >= 0)
            (*op)->node_inputs[fed] = (*op)->input_count;
        (*op)->input_types[(*op)->input_count++] = type;
        return true;
    }
    if (*op && sscanf(line, "output %d", &type) == 1) {
        (*op)->output_types[(*op)->output_count++] = type;
        return true;
    }
    return false;
}

static bool read_operators(gw_error *error) {
    gw_part list = gw_contents_part("", "operators", "");
    size_t lines = count_lines(list);
    char line[LINE];
    operation *last = NULL;
    operations = calloc(lines + 1, sizeof *operations);
    if (!operations)
        return gw_fail_memory(error);
    for (reader r = read_part(list); next_line(&r, line);)
        if (!read_line(line, &last, lines))
            return gw_fail(error, GW_E_LOAD, "the list of operators is damaged: %s", line);
    return true;
}

static bool open_once(gw_error *error) {
    if (isa)
        return true;
    if (!gw_contents_open((const void *)(uintptr_t)operators_open, error))
        return false;
    const char *level = level_of_this_cpu();
    if (level && !operations && !read_operators(error))
        return false;
    isa = level;
    return true;
}

bool operators_open(operation **first, size_t *count, gw_error *error) {
    pthread_mutex_lock(&lock);
    bool done = open_once(error);
    *first = operations;
    *count = done && isa ? operation_count : 0;
    pthread_mutex_unlock(&lock);
    return done;
}

bool operators_are_all(void) { return gw_contents_part("", "whole", "").data; }

/* ---- programs and their kernels ---- */

/* The shared object called `name`, loaded once. */
static void *load_object(const char *name, gw_error *error) {
    for (int i = 0; i < object_count; i++)
        if (strcmp(objects[i].name, name) == 0)
            return objects[i].handle;
    gw_part code = gw_contents_part(isa, name, ".so");
    if (!code.data || object_count == MOST_OBJECTS) {
        gw_fail(error, GW_E_LOAD, "the kernels %s are missing", name);
        return NULL;
    }
    void *handle = gw_load_memory(code.data, code.size, error);
    if (handle) {
        snprintf(objects[object_count].name, NAME, "%s", name);
        objects[object_count++].handle = handle;
    }
    return handle;
}

/* Parses a line: the symbol of a kernel and the shared object that contains it. */
static bool link_kernel(operation *op, int64_t number, const char *line, gw_error *error) {
    char symbol[NAME], name[NAME];
    if (sscanf(line, "%255s %255s", symbol, name) != 2)
        return gw_fail(error, GW_E_LOAD, "the list of kernels is damaged at '%s': write the library again",
                       line);
    void *handle = load_object(name, error);
    return handle && gw_linked_kernel(&op->linked, number, handle, name, symbol, error);
}

static bool link_kernels(operation *op, gw_error *error) {
    char line[LINE];
    int64_t count = 0, wanted = op->linked.program->kernel_count;
    for (reader r = read_part(gw_contents_part(isa, op->name, ".kernels")); next_line(&r, line); count++)
        if (count >= wanted || !link_kernel(op, count, line, error))
            return error->kind != GW_OK || gw_fail(error, GW_E_LOAD, "%s has too many kernels", op->name);
    return count == wanted || gw_fail(error, GW_E_LOAD, "%s lacks kernels", op->name);
}

static bool load_once(operation *op, gw_error *error) {
    if (op->linked.program)
        return true;
    gw_part words = gw_contents_part(isa, op->name, ".program"),
            weights = gw_contents_part(isa, "weights", "");
    if (!gw_linked_decode(&op->linked, words.data, words.size, PLANS, &arenas, error))
        return false;
    const gw_program *p = op->linked.program;
    bool fits = p->input_count <= MOST_VALUES && p->output_count <= MOST_VALUES;
    fits = fits && p->input_dim_count <= MOST_DIMS && p->host_count == 0;
    if (!fits)
        gw_fail(error, GW_E_LOAD, "%s has more inputs than an operator can have", op->name);
    if (!fits || !link_kernels(op, error)) {
        gw_linked_free(&op->linked);
        return false;
    }
    gw_linked_weights(&op->linked, weights.data, (int64_t)weights.size);
    return true;
}

bool operators_load(operation *op, gw_error *error) {
    pthread_mutex_lock(&lock);
    bool done = load_once(op, error);
    pthread_mutex_unlock(&lock);
    return done;
}

/* ONNX Runtime unloads the library when no session needs it. */
__attribute__((destructor)) static void close_all(void) {
    for (size_t i = 0; i < operation_count; i++) {
        operation *op = &operations[i];
        gw_linked_free(&op->linked);
        free(op->name), free(op->input_types), free(op->output_types), free(op->node_inputs);
    }
    gw_arena_pool_clear(&arenas);
    for (int i = 0; i < object_count; i++)
        gw_unload(objects[i].handle);
    free(operations);
    gw_contents_close();
}
