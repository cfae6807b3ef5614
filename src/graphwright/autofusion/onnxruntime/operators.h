/* The operators of a library: each runs a program on some of the inputs of its node. */
#pragma once
#include "contents.h"
#include "custom_ops.h"
#include "linked.h"

enum { MOST_PORTS = 256, MOST_DIMS = 1024 }; /* of the inputs, and of the outputs, of one program */

typedef struct {
    OrtCustomOp base;
    char *name;
    size_t input_count, output_count;
    int *input_types, *output_types; /* as ONNX Runtime numbers them */
    size_t *ports;                   /* of each input of the program, its number among those of the node */
    gw_linked linked;                /* from the first kernel on; its weights are those of all operators */
} operation;

/* Read which operators the library has: those for this CPU, none where it has none. Once. */
bool operators_open(operation **first, size_t *count, gw_error *error);
/* Whether the model has no other nodes. */
bool operators_are_all(void);
/* Load the program of an operator and its kernels. Once. */
bool operators_load(operation *op, gw_error *error);
