#include "explain.h"

#include <stdio.h>
#include <string.h>

enum { NAME = 256, TEXT = 1024 };
enum { NOTE = 3, TASK_KERNEL = 3, TASK_NAME = 11, SYMBOL = 0 }; /* fields of instructions, tasks, kernels */

/* ---- the tasks ---- */

static const json *field_of(const json *tasks, const char *section, int64_t item, int64_t field) {
    return json_item(json_item(json_member(tasks, section), item), field);
}

static void copy_text(const json *value, char text[NAME]) {
    snprintf(text, NAME, "%s", json_text(value) ? json_text(value) : "");
}

typedef struct {
    char note[NAME];   /* of the shape check */
    char node[NAME];   /* of the task */
    char kernel[NAME]; /* of the task */
} names;

/* The names that the tasks have for the subject of `error`. Errors are rare, so the tasks are parsed for each
   one. */
static names read_names(const executable *program, const gw_error *error) {
    names found = {"", "", ""};
    json_document tasks;
    const char *fault;
    int64_t kernel = -1;
    if (!json_parse(&tasks, program->tasks.data, program->tasks.size, &fault))
        return found;
    if (error->kind == GW_E_CHECK)
        copy_text(field_of(tasks.values, "shape", error->a, NOTE), found.note);
    if (error->kind == GW_E_KERNEL) {
        copy_text(field_of(tasks.values, "tasks", error->a, TASK_NAME), found.node);
        json_integer(field_of(tasks.values, "tasks", error->a, TASK_KERNEL), &kernel);
        copy_text(field_of(tasks.values, "kernels", kernel, SYMBOL), found.kernel);
    }
    json_free(&tasks);
    return found;
}

/* ---- sizes ---- */

static const gw_instruction *check_of(const executable *program, const gw_error *error) {
    const gw_program *p = program->linked.program;
    bool is_check = error->kind == GW_E_CHECK && error->a >= 0 && error->a < p->shape_count;
    return is_check ? &p->shape[error->a] : NULL;
}

bool is_broken_guard(const executable *program, const gw_error *error) {
    const gw_instruction *check = check_of(program, error);
    return check && check->code >= GW_GUARD_EQ;
}

/* `is_symbol`: the note has a name for the expected size, so its value in this run is shown as well. */
static gw_status explain_axis(const char *note, bool is_symbol, const gw_error *error) {
    if (is_symbol)
        return fail(GW_STATUS_SHAPE, "%s (here %lld), but is %lld", note, (long long)error->c,
                    (long long)error->b);
    return fail(GW_STATUS_SHAPE, "%s, but is %lld", note, (long long)error->b);
}

static gw_status explain_check(const executable *program, const gw_error *error) {
    const names found = read_names(program, error);
    const gw_instruction *check = check_of(program, error);
    if (is_broken_guard(program, error))
        return fail(GW_STATUS_SHAPE, "the program assumes that %s: %lld and %lld are given", found.note,
                    (long long)error->b, (long long)error->c);
    bool is_axis = strncmp(found.note, "axis ", strlen("axis ")) == 0 && strstr(found.note, " must be ");
    if (is_axis && check && program->linked.program->shape[check->a].code == GW_DIM)
        return explain_axis(
            found.note,
            check->code == GW_CHECK_EQ && program->linked.program->shape[check->b].code != GW_CONST, error);
    return fail(GW_STATUS_SHAPE, "inputs of these sizes do not fit the model: %s (%lld and %lld are given)",
                found.note, (long long)error->b, (long long)error->c);
}

/* The runtime says "axis 1 of input 3 must be ...". */
static gw_status explain_feed(const executable *program, const gw_error *error) {
    return fail(GW_STATUS_SHAPE, "axis %lld of '%s'%s", (long long)error->b,
                program->inputs.at[error->a].name, strstr(error->text, " must"));
}

/* ---- kernels ---- */

static const char *reason_of(const char *kernel, int64_t code) {
    const char *branches[] = {"gw_fail", "gw_require_equal", "gw_require_at_most"};
    for (size_t i = 0; i < sizeof branches / sizeof *branches; i++)
        if (strcmp(kernel, branches[i]) == 0)
            return "the model chose a branch that cannot run on inputs of these sizes";
    return gw_kernel_fault(code);
}

static gw_status explain_kernel(const executable *program, const gw_error *error) {
    const names found = read_names(program, error);
    char range[TEXT];
    gw_fault_range(error, range, sizeof range);
    return fail(GW_STATUS_RUN, "node '%s': %s%s (kernel %s, code %lld)", found.node,
                reason_of(found.kernel, error->b), range, found.kernel, (long long)error->b);
}

gw_status explain(const executable *program, const gw_error *error) {
    switch (error->kind) {
    case GW_E_CHECK: return explain_check(program, error);
    case GW_E_FEED: return explain_feed(program, error);
    case GW_E_KERNEL: return explain_kernel(program, error);
    case GW_E_PLAN: return fail_runtime("no memory plan for inputs of these sizes", error);
    default: return fail_runtime("the run failed", error);
    }
}
