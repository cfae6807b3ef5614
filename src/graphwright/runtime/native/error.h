/* Errors as data, from which Python makes exceptions and their messages. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    GW_OK = 0,
    GW_E_PROGRAM, /* the encoded program is malformed */
    GW_E_FEED,    /* shapes do not fit the inputs: a input, b axis or -1 */
    GW_E_CHECK,   /* a check of the shape program failed: a instruction, b and c its values */
    GW_E_PLAN,    /* sizes overflow or an operand leaves its buffer */
    GW_E_KERNEL,  /* a kernel failed: a task, b its code */
    GW_E_HOST,    /* a host function failed: a task */
    GW_E_LOAD,    /* a shared object cannot be loaded */
    GW_E_MEMORY
} gw_error_kind;

typedef struct {
    gw_error_kind kind;
    int64_t a, b, c;
    int64_t
        details[3]; /* of GW_E_KERNEL, if details[1] <= details[2]: a number in its data outside this range */
    char text[256];
} gw_error;

/* Records the error; always false, so that a caller returns it. */
bool gw_fail(gw_error *error, gw_error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool gw_fail_memory(gw_error *error);

/* What the code of a kernel that failed means. */
const char *gw_kernel_fault(int64_t code);
/* Writes ": 7, which must be from 0 to 3" to `text`; nothing if `error` has no such number. */
void gw_fault_range(const gw_error *error, char *text, size_t size);
