/* Tree traversal over features of type T; PAD is the padding of a node after its split value. Included by
 * trees.c, for float and double. */

#define OF(name) GW_JOIN(name, T)

typedef struct {
    T split;
    PAD int32_t feature, next;
} OF(node);

/* Advances LANES traversals by one node; at: offsets of their nodes. Traversals of one tree have a stride (in
 * bytes) between rows of x, those of one row have stride 0. There are no data-dependent branches: half of
 * them would be mispredicted. */
GW_INLINE void OF(step)(const char *nodes, const char *x, int64_t stride, int32_t *at, int nans) {
#pragma GCC unroll 8
    for (int k = 0; k < LANES; k++) {
        const OF(node) *node = (const OF(node) *)(nodes + at[k]);
        const T value = *(const T *)(x + k * stride + (node->feature & INT32_MAX));
        int more = !(value <= node->split);
        if (nans)
            more &= !((value != value) & (node->feature < 0));
        at[k] = node->next + more * NODE;
    }
}

GW_INLINE int OF(all_at_leaves)(const char *nodes, const int32_t *at) {
    int32_t moves = 0;
    for (int k = 0; k < LANES; k++)
        moves |= ((const OF(node) *)(nodes + at[k]))->next ^ at[k];
    return !moves;
}

GW_INLINE void OF(walk)(const char *nodes, const char *x, int64_t stride, int32_t *at, int32_t depth,
                        int nans) {
    int32_t step = 0;
    for (; step + STRIDE <= depth; step += STRIDE) {
        if (step >= 2 * STRIDE && OF(all_at_leaves)(nodes, at))
            return;
        for (int k = 0; k < STRIDE; k++)
            OF(step)(nodes, x, stride, at, nans);
    }
    for (; step < depth; step++)
        OF(step)(nodes, x, stride, at, nans);
}

GW_INLINE void OF(vote)(const forest *f, const T *weights, int32_t leaf, double *score) {
    const int32_t *range = f->votes + leaf / NODE * 2;
    for (int32_t k = range[0]; k < range[1]; k++) {
        double *mine = score + f->targets[k];
        *mine = combined(*mine, weights[k], f->fold);
    }
}

GW_INLINE void OF(rows)(const forest *f, const char *nodes, const T *x, const T *weights, int64_t rows,
                        double *scores, int nans) {
    const int64_t whole = rows / LANES * LANES, stride = f->features * (int64_t)sizeof(T);
    int32_t at[LANES];
    for (int64_t t = 0; t < f->count && whole; t++) {
        for (int64_t row = 0; row < whole; row += LANES) {
            for (int k = 0; k < LANES; k++)
                at[k] = f->trees[t].root;
            OF(walk)(nodes, (const char *)(x + row * f->features), stride, at, f->trees[t].depth, nans);
            for (int k = 0; k < LANES; k++)
                OF(vote)(f, weights, at[k], scores + (row + k) * f->size);
        }
    }
    for (int64_t row = whole; row < rows; row++) {
        for (int64_t t = 0; t < f->count; t += LANES) {
            const int64_t left = f->count - t < LANES ? f->count - t : LANES;
            int32_t depth = 0;
            for (int64_t k = 0; k < LANES; k++) {
                const tree own = f->trees[k < left ? t + k : t];
                at[k] = own.root;
                depth = own.depth > depth ? own.depth : depth;
            }
            OF(walk)(nodes, (const char *)(x + row * f->features), 0, at, depth, nans);
            for (int64_t k = 0; k < left; k++)
                OF(vote)(f, weights, at[k], scores + row * f->size);
        }
    }
}

static void OF(scored)(void *const *buf, const forest *f, int64_t first, int64_t rows, double *scores) {
    const T *x = (const T *)buf[TREES_X] + first * f->features, *weights = buf[TREES_WEIGHTS];
    const char *nodes = buf[TREES_NODES];
    T *y = (T *)buf[TREES_SCORES] + first * f->size;
    int nans = 0;
    for (int64_t k = 0; k < rows * f->features; k++)
        nans |= x[k] != x[k];
    const double none = f->fold == MIN || f->fold == MAX ? __builtin_nan("") : 0;
    for (int64_t k = 0; k < rows * f->size; k++)
        scores[k] = none;
    if (nans)
        OF(rows)(f, nodes, x, weights, rows, scores, 1);
    else
        OF(rows)(f, nodes, x, weights, rows, scores, 0);
    const double count = f->fold == AVERAGE ? (double)f->count : 1;
    const int some = f->fold == MIN || f->fold == MAX;
    for (int64_t k = 0; k < rows * f->size; k++) {
        const double score = scores[k] / count;
        y[k] = some && score != score ? 0 : (T)score;
    }
}

#undef OF
