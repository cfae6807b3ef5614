/* How far launches reach: asked of their kernels when a plan is made. */
#pragma once
#include "plan.h"

/* Where things stand in what a kernel says of itself; the ends of its operands, in bytes, follow. A negative
   end is that of an operand that may be absent. Epilogues are given the tile: batch, rows, columns of all
   that they are called for. */
enum {
    GW_EXTENT_GRID, /* that it is launched with, then the largest that it takes */
    GW_EXTENT_SCRATCH,
    GW_EXTENT_TILE,
    GW_EXTENT_HOOK = GW_EXTENT_TILE + 3, /* whether there is an epilogue, then its place among the operands */
    GW_EXTENT_ARGS,                      /* that are the kernel's own, before those of the epilogue */
    GW_EXTENT_FIRST,
};

/* A kernel that calls others has minus their number in GW_EXTENT_ARGS, and from GW_EXTENT_FIRST on, in place
   of ends, these numbers of each. */
enum {
    GW_PART_EXTENT, /* the address of its function */
    GW_PART_FIRST_ARG,
    GW_PART_ARGS,
    GW_PART_FIRST_OPERAND,
    GW_PART_OPERANDS,
    GW_PART_INSIDE, /* bits: operands that are in scratch */
    GW_PART_NUMBERS,
};

/* Not 0 where the kernel takes no such arguments. */
typedef int32_t (*gw_extent)(const int64_t *arg, int64_t args, int64_t operands, double *out);

/* Whether a launch whose arguments and grid are in the plan touches no more than its operands and its scratch
   have, as far as kernels say; those of a plugin need not. */
bool gw_is_in_bounds(const gw_program *program, const gw_links *links, const gw_plan *plan, int64_t task,
                     gw_error *error);

/* Bytes that a task reads and writes: how far it reaches in its operands, an operand that is passed twice
   counted once. Of those of a plugin's kernel that says nothing: all that they have. False without memory. */
bool gw_task_bytes(const gw_program *program, const gw_links *links, const gw_plan *plan, int64_t task,
                   int64_t *read, int64_t *written);
