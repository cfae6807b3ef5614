/* The operators of a library: each runs a program on some of the inputs of its node. */
#pragma once
#include "contents.h"
#include "custom_ops.h"
#include "linked.h"

enum { MOST_VALUES = 256, MOST_DIMS = 1024 }; /* of the inputs, and of the outputs, of one program */

typedef struct {
    OrtCustomOp base;
    char *name;
    size_t input_count, output_count;
    int *input_types, *output_types; /* element types of ONNX Runtime */
    size_t *node_inputs;             /* for each input of the program: the index of the input of the node */
    gw_linked linked; /* empty until the first kernel is created; all operators share the weights */
} operation;

/* Reads the list of operators for this CPU, once; it is empty if the library has no kernels for this CPU. */
bool operators_open(operation **first, size_t *count, gw_error *error);
/* Whether all nodes of the model are operators of this library. */
bool operators_are_all(void);
/* Loads the program of an operator and its kernels, once. */
bool operators_load(operation *op, gw_error *error);
