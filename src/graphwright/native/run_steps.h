/* Runs of host programs. */
#pragma once
#include "choose.h"
#include "steps.h"

/* A value of a run. */
typedef struct {
    operand value;
    block own; /* what a call wrote */
} slot;

/* What the runs of one host program in one request keep. */
typedef struct {
    const host_program *program;
    slot *slots;    /* of each value */
    int64_t *sizes; /* of each symbol; -1: not bound yet */
    choice choice;
    operand *operands; /* of a call */
    void **input_data, **output_data;
} host_run;

gw_status host_run_make(const host_program *program, host_run **made);
void host_run_free(host_run *run);
/* Runs the steps on `inputs`. Results are in the slots until the next run. */
gw_status host_run_execute(host_run *run, const operand *inputs, const char *weights, int threads);
