/* For tests: fills memory that no task may read with NaN, so that reads before the first write or after the
   last use become visible. A buffer is filled before its first use and after its last one; if a loop contains
   all uses, in each of its iterations. */
#pragma once
#include "plan.h"

typedef struct {
    const gw_program *program;
    const gw_plan *plan;
    char *arena;
    /* for each buffer: its uses as an operand, the remaining uses, and the LOOP that contains all of them */
    int64_t *uses, *left, *home;
    bool *touched;
} gw_poison;

bool gw_poison_start(gw_poison *state, const gw_program *program, const gw_plan *plan, char *arena,
                     gw_error *error);
void gw_poison_free(gw_poison *state);
/* Call when a task starts. */
void gw_poison_before(gw_poison *state, int64_t task);
/* Call when a task has ended; for an IF, when it has selected a block. */
void gw_poison_after(gw_poison *state, int64_t task);
/* Call when an IF has selected a block: the others do not run. */
void gw_poison_choice(gw_poison *state, int64_t task, int64_t selected);
/* Call when another iteration of a LOOP starts. */
void gw_poison_iteration(gw_poison *state, int64_t task);
/* Fills memory with NaN. */
void gw_poison_fill(void *memory, int64_t bytes);
