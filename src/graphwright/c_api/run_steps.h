/* Runs host programs. */
#pragma once
#include "choose.h"
#include "steps.h"

/* A value of a host program in a run. */
typedef struct {
    operand value;
    block own; /* the memory that a call wrote it to */
} slot;

/* What a request keeps between the runs of a host program. */
typedef struct {
    const host_program *program;
    slot *slots;    /* of the values */
    int64_t *sizes; /* of the symbols; -1: not bound yet */
    choice choice;
    operand *operands; /* of the current call */
    void **input_data, **output_data;
} host_run;

gw_status host_run_make(const host_program *program, host_run **made);
void host_run_free(host_run *run);
/* Runs the steps on `inputs`. The results stay in the slots until the next run. */
gw_status host_run_execute(host_run *run, const operand *inputs, const char *weights, int threads);
