/* The shape program: computes all values of a plan from the dims of the inputs, in checked int64 arithmetic.
 */
#pragma once
#include "program.h"

/* `dims`: of all inputs, one after the other (program->input_dim_count of them). `registers` has shape_count
   places. */
bool gw_shape_evaluate(const gw_program *program, const int64_t *dims, int64_t *registers, gw_error *error);

/* Bytes of a dense array; false if they overflow or a dim is negative. */
bool gw_dense_bytes(int64_t item, gw_list dims, const int64_t *registers, int64_t *bytes);
