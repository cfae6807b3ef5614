#include "choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"

enum { TEXT = 1024 };

/* ---- error texts ---- */

static void add(char text[TEXT], const char *part) {
    size_t end = strlen(text);
    snprintf(text + end, TEXT - end, "%s", part);
}

/* Shapes in the syntax of the command line: "x:N,3 y:4". */
static void add_shapes(const infos *inputs, char text[TEXT]) {
    char number[32];
    for (size_t i = 0; i < inputs->count; i++) {
        const gw_tensor_info *info = &inputs->at[i];
        add(text, *text && text[strlen(text) - 1] != ' ' ? " " : "");
        add(text, info->name);
        add(text, info->rank < 0 ? ":*" : ":");
        for (int axis = 0; axis < info->rank; axis++) {
            snprintf(number, sizeof number, "%" PRId64, info->sizes[axis]);
            add(text, axis ? "," : "");
            add(text, info->symbols[axis] ? info->symbols[axis] : number);
        }
    }
}

static void add_guards(const json *guards, char text[TEXT]) {
    const char *between = " where ";
    JSON_EACH(guard, guards) {
        add(text, between);
        add(text, json_text(guard) ? json_text(guard) : "?");
        between = " and ";
    }
}

static gw_status no_case(const executable *dispatch) {
    char text[TEXT] = "";
    for (size_t i = 0; i < dispatch->case_count; i++) {
        add(text, i ? "; " : "");
        add_shapes(&dispatch->cases[i].inputs, text);
        add_guards(dispatch->cases[i].guards, text);
    }
    if (dispatch->compiles)
        return fail(
            GW_STATUS_UNSUPPORTED,
            "no program in the package accepts inputs of these sizes, and this interface compiles "
            "none: the package has programs for %s. Compile the model with these sizes among its gears",
            text);
    return fail(GW_STATUS_SHAPE, "no gear matches inputs of these sizes: the gears are %s", text);
}

/* ---- programs ---- */

static gw_status no_axes(const executable *program, size_t input, int rank, int64_t expected) {
    return fail(GW_STATUS_SHAPE, "'%s' must have rank %lld, but has rank %d", program->inputs.at[input].name,
                (long long)expected, rank);
}

/* `is_broken` is set if a guard rejects the sizes. */
static gw_status plan_program(choice *c, executable *program, const operand *inputs, int threads,
                              bool *is_broken) {
    const gw_program *p = program->linked.program;
    gw_error error = {0};
    if ((size_t)p->input_dim_count > c->dim_room) {
        int64_t *grown = realloc(c->dims, (size_t)p->input_dim_count * sizeof *grown);
        if (!grown)
            return fail_memory();
        c->dims = grown, c->dim_room = (size_t)p->input_dim_count;
    }
    int64_t *next = c->dims;
    for (size_t i = 0; i < program->inputs.count; i++) {
        const operand *o = &inputs[i];
        if (o->rank != p->inputs[i].dims.count)
            return no_axes(program, i, o->rank, p->inputs[i].dims.count);
        for (int axis = 0; axis < o->rank; axis++)
            *next++ = o->sizes[axis];
    }
    c->plan = gw_linked_plan(&program->linked, c->dims, threads, &error);
    *is_broken = !c->plan && is_broken_guard(program, &error);
    if (!c->plan)
        return explain(program, &error);
    c->program = program;
    return GW_STATUS_OK;
}

/* ---- choices ---- */

/* Whether the shapes match the constant dimensions of a case; with `exactly`, it must have no others. */
static bool accepts(const executable *e, const operand *inputs, bool exactly) {
    for (size_t i = 0; i < e->inputs.count; i++) {
        const gw_tensor_info *info = &e->inputs.at[i];
        if (info->rank != inputs[i].rank)
            return false;
        for (int axis = 0; axis < info->rank; axis++)
            if (info->sizes[axis] < 0 ? exactly : info->sizes[axis] != inputs[i].sizes[axis])
                return false;
    }
    return true;
}

static gw_status choose(choice *c, executable *e, const operand *inputs, int threads, bool *is_broken) {
    *is_broken = false;
    if (e->kind == PROGRAM)
        return plan_program(c, e, inputs, threads, is_broken);
    if (e->kind == STEPS) {
        c->program = e;
        return GW_STATUS_OK;
    }
    for (int pass = 0; pass < 2; pass++) /* first the cases of exactly these sizes */
        for (size_t i = 0; i < e->case_count; i++) {
            bool is_exact = accepts(&e->cases[i], inputs, true);
            if (pass == 0 ? !is_exact : is_exact || !accepts(&e->cases[i], inputs, false))
                continue;
            gw_status status = choose(c, &e->cases[i], inputs, threads, is_broken);
            if (status == GW_STATUS_OK || !*is_broken)
                return status;
        }
    *is_broken = false;
    return no_case(e);
}

gw_status choose_program(choice *c, executable *e, const operand *inputs, int threads) {
    bool is_broken;
    return choose(c, e, inputs, threads, &is_broken);
}

void choice_drop(choice *c) {
    if (c->plan)
        gw_plan_release(c->plan);
    c->plan = NULL;
    c->program = NULL;
}

void choice_free(choice *c) {
    choice_drop(c);
    free(c->dims);
}
