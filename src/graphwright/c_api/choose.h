/* Selects the program for the input sizes of a run. */
#pragma once
#include "package.h"

/* An input of a run. */
typedef struct {
    const void *data;
    bool is_set;
    int rank;
    int64_t sizes[GW_MAX_RANK];
} operand;

/* What a run executes: a program with its plan, or a host program, which plans while it runs. */
typedef struct {
    executable *program; /* NULL while nothing is chosen */
    gw_plan *plan;
    int64_t *dims;
    size_t dim_room;
} choice;

/* Chooses the program of `e` for inputs of these sizes. `c` must be empty. */
gw_status choose_program(choice *c, executable *e, const operand *inputs, int threads);
/* Empties the choice. */
void choice_drop(choice *c);
void choice_free(choice *c);
