/* Which program takes the sizes of a run. */
#pragma once
#include "package.h"

/* An input of a run. */
typedef struct {
    const void *data;
    bool is_set;
    int rank;
    int64_t sizes[GW_MAX_RANK];
} operand;

/* What runs: a program and its plan, or a host program, which plans as it runs. */
typedef struct {
    executable *program; /* NULL: nothing is chosen */
    gw_plan *plan;
    int64_t *dims;
    size_t dim_room;
} choice;

/* Finds what runs of `e` for inputs of these sizes. Nothing may be chosen. */
gw_status choose_program(choice *c, executable *e, const operand *inputs, int threads);
/* Chooses nothing. */
void choice_drop(choice *c);
void choice_free(choice *c);
