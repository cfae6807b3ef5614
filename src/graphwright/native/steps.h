/* Host programs without nodes of the host: calls of programs, and sizes that one of them finds for the next.
 */
#pragma once
#include "package.h"

typedef struct {
    size_t count;
    size_t *at;
} numbers;

/* What an axis of an input tells: a size is `scale` times the symbol; 0: it tells nothing. */
typedef struct {
    size_t symbol;
    int64_t scale;
} axis_rule;

/* -1 stands for the size that is bound. */
typedef struct {
    int rank;
    int64_t *sizes;
} bound_shape;

typedef struct {
    bool is_call;
    numbers inputs,
        outputs; /* values; of a bound size the first input is the count, the others are buffers */
    executable callee;
    numbers sizes;       /* of a call: symbols, each of which an array u8[size, 0] binds */
    size_t symbol;       /* that is bound */
    bound_shape *shapes; /* of each output */
    const char *node;
} step;

struct host_program {
    infos values;
    size_t input_count;
    axis_rule **rules; /* of each input's axes */
    numbers constants; /* values that are weights */
    const tensor **tensors;
    step *steps;
    size_t step_count;
    numbers results;
    const char **symbols;
    size_t symbol_count;
};
