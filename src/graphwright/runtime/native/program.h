/* Decodes and validates encoded programs (low_ir/wire.py): after gw_program_decode, every index is in range.
 */
#pragma once
#include <stddef.h>

#include "error.h"

#define GW_MAGIC INT64_C(0x31475250574C47) /* "GLWPRG1" */
enum { GW_VERSION = 2, GW_MAX_RANK = 64, GW_MAX_DEPTH = 576 };

enum {
    GW_CONST,
    GW_DIM,
    GW_ADD,
    GW_SUB,
    GW_MUL,
    GW_FLOORDIV,
    GW_MOD,
    GW_MIN,
    GW_MAX,
    GW_CHECK_EQ,
    GW_CHECK_LE,
    GW_GUARD_EQ,
    GW_GUARD_LE,
    GW_GUARD_NE,
    GW_CODES
};
enum { GW_INPUT, GW_OUTPUT, GW_WEIGHT, GW_ARENA, GW_SCRATCH, GW_STATE, GW_STORAGES };
enum { GW_LAUNCH, GW_COPY, GW_IF, GW_HOSTCALL, GW_LOOP, GW_KINDS };
enum { GW_OPERAND_NULL = -1, GW_OPERAND_FUNCTION = -2 };

/* A list of int64 in the words of the program. */
typedef struct {
    int64_t count;
    const int64_t *at;
} gw_list;

typedef struct {
    int64_t item;      /* bytes of an element */
    gw_list dims;      /* registers */
    int64_t first_dim; /* among the dims of all inputs */
    bool is_state;     /* an input that the tasks may write */
} gw_binding;

typedef struct {
    int64_t code, a, b;
} gw_instruction;

typedef struct {
    int64_t storage, size, index;
    gw_list conflicts;
} gw_buffer;

typedef struct {
    int64_t buffer; /* or GW_OPERAND_NULL, GW_OPERAND_FUNCTION */
    int64_t offset; /* a register; of a function: its kernel */
} gw_operand;

typedef struct {
    int64_t kind, kernel, grid, scratch, work;
    int64_t operand_count, first_operand; /* in program.operands */
    int64_t first_arg; /* index in the args of the program, which a plan has in this order */
    gw_list writes, args, blocks, after;
    int64_t block;                      /* the block that contains it */
    int64_t successor_count, successor; /* in program.successors */
} gw_task;

typedef struct {
    int64_t first, count;
    int64_t parent; /* the IF or LOOP of the block; -1 for block 0 */
} gw_block;

/* One operand of a host function: element size and registers of its dims; item 0: absent. */
typedef struct {
    int64_t item;
    gw_list dims;
} gw_host_operand;

typedef struct {
    int64_t input_count, count; /* inputs first, then outputs */
    gw_host_operand *operands;
} gw_host_function;

typedef struct {
    int64_t *words;
    int64_t input_count, output_count, shape_count, buffer_count, task_count, block_count, kernel_count,
        host_count;
    int64_t operand_count, arg_count, input_dim_count;
    gw_binding *inputs, *outputs;
    const gw_instruction *shape;
    gw_buffer *buffers;
    gw_task *tasks;
    gw_operand *operands;
    int32_t *bases;                       /* of each operand: see gw_base */
    int64_t *successors;                  /* the `after` edges, reversed */
    int64_t *conflict_starts, *conflicts; /* of all buffers, for the planner */
    gw_block *blocks;
    gw_host_function *hosts;
    int64_t io_operand_count, *io_operands; /* operands whose address changes from run to run */
} gw_program;

/* What an operand's offset is relative to: nothing (null and functions), the weights, the arena, inputs,
   outputs. */
enum { GW_BASE_NONE, GW_BASE_WEIGHTS, GW_BASE_ARENA, GW_BASE_BINDINGS };

/* Decodes `size` bytes, which may be freed afterwards. If they are malformed, returns NULL with an error that
   names the word. */
gw_program *gw_program_decode(const void *bytes, size_t size, gw_error *error);
void gw_program_free(gw_program *program);
