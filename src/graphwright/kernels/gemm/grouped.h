/* Products of consecutive groups of rows by one matrix each: grouped_gemm.py documents the grid. */

#ifndef GW_GEMM_GROUPED_H
#define GW_GEMM_GROUPED_H

#include "gemm/run.h"

/* How the operands are stored. */
struct stored {
    int packed;               /* B is packed in panels of `depth` rows of NR elements */
    int64_t a_bytes, b_bytes; /* of an element */
    int64_t depth;
};

/* Computes a whole product. arg: the arguments after those of the groups; column: the first one of its B
 * among the padded columns of all groups. */
typedef int32_t product_fn(const struct gemm *g, void *const *buf, const int64_t *arg, int64_t column,
                           float *scratch);

/* Where group i ends, if it begins at `begin`. */
static int64_t end_of(void *const *buf, const struct grouped_args *own, int64_t i, int64_t begin) {
    const void *ends = buf[GROUPED_ENDS];
    const int64_t end = own->end_size == 4 ? ((const int32_t *)ends)[i] : ((const int64_t *)ends)[i];
    return smaller(end > begin ? end : begin, own->m);
}

/* The address of element `at` of an operand with elements of this many bytes. */
static const float *element(const void *operand, int64_t bytes, int64_t at) {
    return (const float *)(const void *)((const char *)operand + bytes * at);
}

static int32_t run_groups(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, float *scratch,
                          struct stored as, product_fn *run) {
    const struct grouped_args *own = grouped_args(arg);
    const int64_t panels = ceildiv(own->n, NR), matrix = own->k * own->n, units = own->groups + 1;
    const int64_t parts = smaller(ceildiv(panels, PART_PANELS), MOST_PARTS);
    int64_t row = 0; /* where the group begins */
    for (int64_t i = 0; i < begin % units; i++)
        row = end_of(buf, own, i, row);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit % units, part = unit / units;
        const int64_t col = part_begin(panels, part, parts) * NR;
        const int64_t cols = smaller(own->n, part_begin(panels, part + 1, parts) * NR) - col;
        float *c = (float *)buf[GROUPED_C] + row * own->n + col;
        if (group == own->groups) {
            for (; row < own->m; row++, c += own->n)
                memset(c, 0, (size_t)cols * sizeof *c);
            row = 0;
            continue;
        }
        const int64_t next = end_of(buf, own, group, row), column = group * panels * NR + col;
        const struct gemm g = {
            .s = {.batch0 = 1,
                  .batch1 = 1,
                  .m = next - row,
                  .n = cols,
                  .k = own->k,
                  .a_m = own->k,
                  .a_k = 1,
                  .b_k = as.packed ? 0 : own->n,
                  .b_n = !as.packed,
                  .c_m = own->n,
                  .c_n = 1},
            .a = element(buf[GROUPED_A], as.a_bytes, row * own->k),
            .b = element(buf[GROUPED_B], as.b_bytes, as.packed ? column * as.depth : group * matrix + col),
            .c = c,
            .scale = 1,
            .packed = as.packed,
        };
        const int32_t error = next > row ? run(&g, buf, arg + GROUPED_ARGS, column, scratch) : 0;
        if (error)
            return error;
        row = next;
    }
    return 0;
}

#endif
