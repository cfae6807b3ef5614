/* Runs in ONNX Runtime's threads: a session's intra-op threads. */
#pragma once
#include "custom_ops.h"
#include "error.h"
#include <stdatomic.h>

/* What is known of the threads of a session. No function says how many it has: runs show it. */
typedef struct {
    atomic_int seen; /* the most that have taken part in a run */
    atomic_uint runs;
} thread_pool;

/* One call of an operator. */
typedef struct {
    table api;
    OrtKernelContext *context;
    OrtStatus *status; /* of the first function that failed, or NULL */
} call;

/* How many threads the next run is to be planned for. */
int threads_to_plan(thread_pool *pool);
/* A gw_spread; `host` is a spreading. */
void threads_spread(void *host, bool (*body)(void *data), void *data);

typedef struct {
    call *call;
    thread_pool *pool;
    int threads; /* at most */
} spreading;
