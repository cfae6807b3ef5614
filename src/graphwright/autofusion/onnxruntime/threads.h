/* Runs programs on the intra-op threads of an ONNX Runtime session. */
#pragma once
#include "custom_ops.h"
#include "error.h"
#include <stdatomic.h>

/* The number of threads of a session, as observed: ONNX Runtime has no function that returns it. */
typedef struct {
    atomic_int seen; /* the most threads that have taken part in one run */
    atomic_uint runs;
} thread_pool;

/* One call of an operator. */
typedef struct {
    table api;
    OrtKernelContext *context;
    OrtStatus *status; /* the error of the first function that failed, or NULL */
} call;

/* The number of threads that the next run is planned for. */
int threads_to_plan(thread_pool *pool);
/* The gw_spread of a run; `host` points to a `spreading`. */
void threads_spread(void *host, bool (*body)(void *data), void *data);

typedef struct {
    call *call;
    thread_pool *pool;
    int threads; /* the most threads of the run */
} spreading;
