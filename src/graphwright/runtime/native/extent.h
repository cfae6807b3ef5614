/* Bounds checks of launches: the extent function of a kernel computes which memory it accesses, when a plan
 * is made. */
#pragma once
#include "plan.h"

/* Indices in the output of an extent function; from GW_EXTENT_FIRST on, there is the end of the accesses to
   each operand in bytes, negated if the operand may be absent. The function of an epilogue gets the index
   space that the epilogue is called for (batch, rows, columns) at GW_EXTENT_TILE. */
enum {
    GW_EXTENT_GRID, /* in: the grid of the launch; out: the largest valid grid */
    GW_EXTENT_SCRATCH,
    GW_EXTENT_TILE,
    GW_EXTENT_HOOK = GW_EXTENT_TILE + 3, /* in: whether there is an epilogue; out: its operand position */
    GW_EXTENT_ARGS,                      /* the number of the kernel's own arguments */
    GW_EXTENT_FIRST,
};

/* A kernel that calls other kernels sets GW_EXTENT_ARGS to minus their number, and from GW_EXTENT_FIRST on
   these numbers for each of them. */
enum {
    GW_PART_EXTENT, /* the address of its extent function */
    GW_PART_FIRST_ARG,
    GW_PART_ARGS,
    GW_PART_FIRST_OPERAND,
    GW_PART_OPERANDS,
    GW_PART_INSIDE, /* bits: operands that are in scratch */
    GW_PART_NUMBERS,
};

/* An extent function; it returns nonzero if the arguments are invalid. */
typedef int32_t (*gw_extent)(const int64_t *arg, int64_t args, int64_t operands, double *out);

/* Whether a launch, whose arguments and grid are in the plan, stays within its operands and scratch. Kernels
   of plugins without an extent function are not checked. */
bool gw_is_in_bounds(const gw_program *program, const gw_links *links, const gw_plan *plan, int64_t task,
                     gw_error *error);

/* The bytes that a task reads and writes, where an operand that is passed twice counts once. A kernel without
   an extent function counts with all of its operands. False if there is no memory. */
bool gw_task_bytes(const gw_program *program, const gw_links *links, const gw_plan *plan, int64_t task,
                   int64_t *read, int64_t *written);
