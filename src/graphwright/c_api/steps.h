/* Host programs without host nodes: calls of programs, and sizes that one call computes for the next one. */
#pragma once
#include "package.h"

typedef struct {
    size_t count;
    size_t *at;
} numbers;

/* How an axis of an input determines a symbol: its size is `scale` times the symbol; 0: it does not. */
typedef struct {
    size_t symbol;
    int64_t scale;
} axis_rule;

/* The shape of an output of a bound size; -1 is the bound dimension. */
typedef struct {
    int rank;
    int64_t *sizes;
} bound_shape;

typedef struct {
    bool is_call;
    numbers inputs,
        outputs; /* values; of a bound size, the first input is the count and the others are buffers */
    executable callee;
    numbers sizes;       /* of a call: symbols, each of them passed as the shape of an array u8[size, 0] */
    size_t symbol;       /* the symbol that is bound */
    bound_shape *shapes; /* of each output */
    const char *node;
} step;

struct host_program {
    infos values;
    size_t input_count;
    axis_rule **rules; /* of the axes of each input */
    numbers constants; /* the values that are weights */
    const tensor **tensors;
    step *steps;
    size_t step_count;
    numbers results;
    const char **symbols;
    size_t symbol_count;
};
