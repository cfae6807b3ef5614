/* A request runs a model: its inputs and outputs, the plan for their sizes, and its asynchronous run. */
#pragma once
#include "run_steps.h"

/* An output, in memory of the caller (`given`) or of the request (`own`). */
typedef struct {
    void *given;
    size_t given_bytes;
    block own;
    void *data; /* what the last run wrote */
    int rank;
    int64_t sizes[GW_MAX_RANK];
    size_t bytes;
} result;

struct gw_request {
    gw_model *model;
    operand *inputs; /* of the executable, including the states */
    result *outputs;
    void **input_data, **output_data;
    choice choice;  /* empty if sizes have changed since the last plan */
    host_run *host; /* of the last host program, or NULL */
    /* Of asynchronous runs; see async.c. */
    struct gw_request *next; /* in the queue */
    atomic_bool is_busy;
    int pending; /* unfinished runs and callbacks; guarded by the lock of the queue */
    gw_status status;
    gw_callback callback;
    void *user;
};

/* Runs the model on the calling thread. */
gw_status request_run(gw_request *request);
/* Waits until all runs and callbacks of the request have finished. */
void request_wait(gw_request *request);
