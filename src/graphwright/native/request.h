/* A run of a model: what it reads and writes, the plan for its sizes, and whether it goes on elsewhere. */
#pragma once
#include "run_steps.h"

/* An output: written to memory of the caller's, or of the request. */
typedef struct {
    void *given;
    size_t given_bytes;
    block own;
    void *data; /* that the last run wrote */
    int rank;
    int64_t sizes[GW_MAX_RANK];
    size_t bytes;
} result;

struct gw_request {
    gw_model *model;
    operand *inputs; /* of the executable, with the states */
    result *outputs;
    void **input_data, **output_data;
    choice choice;  /* nothing: sizes have changed since the last plan */
    host_run *host; /* of the last host program; or NULL */
    /* Of runs that were started; see async.c. */
    struct gw_request *next; /* in the queue */
    atomic_bool is_busy;
    int pending; /* runs and callbacks that have not ended, under the queue's lock */
    gw_status status;
    gw_callback callback;
    void *user;
};

/* A run on this thread. */
gw_status request_run(gw_request *request);
/* Waits until nothing of the request runs any more. */
void request_wait(gw_request *request);
