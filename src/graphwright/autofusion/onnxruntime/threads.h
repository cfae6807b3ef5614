/* Runs in ONNX Runtime's threads: a session's intra-op threads. */
#pragma once
#include "custom_ops.h"
#include "error.h"
#include <stdatomic.h>

/* What is known of the threads of a session. */
typedef struct {
    atomic_int count; /* 0: nothing yet */
    atomic_uint runs;
} thread_pool;

/* One call of an operator. */
typedef struct {
    table api;
    OrtKernelContext *context;
    OrtStatus *status; /* of the first function that failed, or NULL */
} call;

/* How many threads a run may have at most. */
int threads_at_most(void);
/* How many threads the session has, the caller's included: measured, as no function says. */
int threads_of(thread_pool *pool, call *c);
/* A gw_spread for `threads_of` the session; `host` is a spreading. */
void threads_spread(void *host, void (*body)(void *data), void *data);

typedef struct {
    call *call;
    int threads;
} spreading;
