/* For tests: memory that no task may read holds NaN, so that what is read too early or too late shows. A
   buffer is filled before the first of its users and when the last has ended: in each run of the loop that
   holds all of them, if one does. */
#pragma once
#include "plan.h"

typedef struct {
    const gw_program *program;
    const gw_plan *plan;
    char *arena;
    /* of each buffer: operands that name it, those still to come, the LOOP that holds all of them */
    int64_t *uses, *left, *home;
    bool *touched;
} gw_poison;

bool gw_poison_start(gw_poison *state, const gw_program *program, const gw_plan *plan, char *arena,
                     gw_error *error);
void gw_poison_free(gw_poison *state);
/* The task starts. */
void gw_poison_before(gw_poison *state, int64_t task);
/* It has ended; an IF has when it has chosen. */
void gw_poison_after(gw_poison *state, int64_t task);
/* Blocks of an IF other than `selected` do not run. */
void gw_poison_choice(gw_poison *state, int64_t task, int64_t selected);
/* Another iteration of a LOOP starts. */
void gw_poison_iteration(gw_poison *state, int64_t task);
/* Fills `bytes`. */
void gw_poison_fill(void *memory, int64_t bytes);
