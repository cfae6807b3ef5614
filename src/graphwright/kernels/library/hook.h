/* The hook of a kernel: a generated function that receives finished tiles in place of the output. */

#ifndef GW_HOOK_H
#define GW_HOOK_H

#include "cpu/vector.h"

struct hook {
    gw_hook call; /* NULL if there is no hook: the kernel stores its output */
    void *const *buf;
    const int64_t *arg;
};

/* The hook of a kernel with this many operands and arguments: the function follows the kernel's operands, and
 * the hook's own operands and arguments follow those of the kernel. */
GW_INLINE struct hook hook_after(void *const *buf, int64_t operands, const int64_t *arg, int64_t args) {
    struct hook hook = {.buf = buf + operands + 1, .arg = arg + args};
    memcpy(&hook.call, &buf[operands], sizeof hook.call);
    return hook;
}

/* Rows [row, row + rows) and columns [col, col + cols) of a matrix. */
struct area {
    int64_t row, rows, col, cols;
};

/* Passes the finished tile of an area of matrix `batch` to the hook: float, or int32_t of kernels of bytes.
 * Adjacent rows are ld elements apart. */
GW_INLINE int32_t call_hook(const struct hook *hook, void *tile, int64_t ld, int64_t batch, struct area at) {
    return hook->call(hook->buf, hook->arg, tile, ld, batch, at.row, at.rows, at.col, at.cols);
}

#endif
