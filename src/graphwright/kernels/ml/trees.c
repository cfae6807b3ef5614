/* Decision trees: see trees.py. */

#include "ml/trees.gen.h"

#include "library/templates.h"

enum { LANES = 8, STRIDE = 4, NODE = 16 };

typedef struct {
    int32_t root, depth;
} tree;

typedef struct {
    const tree *trees;
    const int32_t *votes, *targets;
    int64_t features, count, size, fold;
} forest;

/* Combines the score of a target with one more vote. */
GW_INLINE double combined(double score, double vote, int64_t fold) {
    if (fold == MIN)
        return score <= vote ? score : vote; /* NaN: no vote yet */
    if (fold == MAX)
        return score >= vote ? score : vote;
    return score + vote;
}

#define T float
#define PAD int32_t pad;
#include "ml/trees_of.h"
#undef T
#undef PAD
#define T double
#define PAD
#include "ml/trees_of.h"
#undef T
#undef PAD

GW_KERNEL(gw_trees) {
    const struct trees_args *a = trees_args(arg);
    const forest f = {buf[TREES_TREES], buf[TREES_VOTES], buf[TREES_TARGETS], a->features, a->trees,
                      a->size,          a->fold};
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit * a->block, left = a->rows - first,
                      rows = left < a->block ? left : a->block;
        if (a->element_size == 4)
            scored_float(buf, &f, first, rows, scratch);
        else
            scored_double(buf, &f, first, rows, scratch);
    }
    return 0;
}
