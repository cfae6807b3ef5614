"""Walks decision trees: eight walks side by side, so that the latency of one hides behind the others."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final

from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.library.extent import Extent, arguments, dense, within
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, prelude

_BLOCK: Final = 64
"""Rows of one unit of the grid: each tree is read once for all of them."""
_MAX_SCORES: Final = 1 << 13
"""Of the rows of one unit together, where a row has many targets."""
_STEP_NS: Final = 1


class Fold(IntEnum):
    """What becomes of the votes for one target."""

    SUM = 0
    AVERAGE = 1
    MIN = 2
    MAX = 3


@dataclass(frozen=True)
class Trees:
    """Scores [rows, size] of x [rows, features]: the votes of each tree's leaf, folded in f64.

    Operands: x, nodes, trees, votes, targets, weights, scores. A node has 16 bytes: a split of x's type (an
    f32 has a pad behind it), the offset of a feature in a row, in bytes, and that of a node among the nodes:
    there a walk goes on where its feature is at most the split, else at the node behind it. A leaf's is its
    own, and its split +inf. The feature's sign bit is set where NaN counts as at most the split. ``trees``
    are the offset of the root and the depth of each, ``votes`` where those of each node begin and end among
    ``targets`` and ``weights``. All integers are i32.
    """

    SYMBOL: ClassVar[str] = "gw_trees"

    element_size: int
    fold: Fold
    rows: Dim
    features: Dim
    trees: int
    size: int
    depth: int
    """The mean of the trees'."""
    nodes: int
    votes: int
    """Of all nodes."""

    @property
    def block(self) -> int:
        return max(8, min(_BLOCK, _MAX_SCORES // self.size))

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            self.element_size,
            int(self.fold),
            self.rows,
            self.features,
            self.trees,
            self.size,
            self.block,
            self.nodes,
            self.votes,
        )

    @property
    def grid(self) -> Dim:
        return ceildiv(self.rows, self.block)

    @property
    def scratch_bytes(self) -> Dim:
        return 8 * self.block * self.size

    @property
    def work_ns(self) -> Dim:
        return self.rows * (self.trees * (self.depth + 2) * _STEP_NS + self.size)


_ARGS: Final = ("element_size", "fold", "rows", "features", "trees", "size", "block", "nodes", "votes")


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far ``gw_trees`` reaches. What offsets in nodes, trees and votes say is believed: the compiler made
    them.
    """
    a = arguments(*_ARGS)
    return (
        Extent(
            Trees.SYMBOL,
            _ARGS,
            (
                dense(a.element_size, a.rows, a.features),
                dense(16, a.nodes),
                dense(8, a.trees),
                dense(8, a.nodes),
                dense(4, a.votes),
                dense(a.element_size, a.votes),
                dense(a.element_size, a.rows, a.size),
            ),
            grid=ceildiv(a.rows, a.block),
            scratch=8 * a.block * a.size,
            bounds=within((1, _MAX_SCORES), "block"),
            choices={"element_size": (4, 8), "fold": tuple(map(int, Fold))},
        ),
    )


def source(isa: Isa) -> str:
    """One C file with ``gw_trees``."""
    walks = (_WALKS.replace("@T@", element).replace("@PAD@", pad) for element, pad in _ELEMENTS)
    return prelude(isa) + _COMMON + "".join(walks) + _KERNEL


_ELEMENTS: Final = (("float", " int32_t pad;"), ("double", ""))

_COMMON: Final = """
enum { SUM, AVERAGE, MIN, MAX, LANES = 8, STRIDE = 4, NODE = 16 };

typedef struct {
    int32_t root, depth;
} tree;

typedef struct {
    const tree *trees;
    const int32_t *votes, *targets;
    int64_t features, count, size, fold;
} forest;

/* What a target's votes have made so far, and one more. */
GW_INLINE double folded(double score, double vote, int64_t fold) {
    if (fold == MIN) return score <= vote ? score : vote; /* NaN: no vote yet */
    if (fold == MAX) return score >= vote ? score : vote;
    return score + vote;
}
"""

_WALKS: Final = """
typedef struct {
    @T@ split;@PAD@
    int32_t feature, next;
} node_@T@;

/* One step of LANES walks, which are at offsets of nodes. Those of one tree have a stride (in bytes) between
   rows of x, those of one row none. No branch follows from the data: half of them would be mispredicted. */
GW_INLINE void step_@T@(const char *nodes, const char *x, int64_t stride, int32_t *at, int nans) {
#pragma GCC unroll 8
    for (int k = 0; k < LANES; k++) {
        const node_@T@ *node = (const node_@T@ *)(nodes + at[k]);
        const @T@ value = *(const @T@ *)(x + k * stride + (node->feature & INT32_MAX));
        int more = !(value <= node->split);
        if (nans) more &= !((value != value) & (node->feature < 0));
        at[k] = node->next + more * NODE;
    }
}

GW_INLINE int all_at_leaves_@T@(const char *nodes, const int32_t *at) {
    int32_t moves = 0;
    for (int k = 0; k < LANES; k++) moves |= ((const node_@T@ *)(nodes + at[k]))->next ^ at[k];
    return !moves;
}

GW_INLINE void walk_@T@(const char *nodes, const char *x, int64_t stride, int32_t *at, int32_t depth,
                        int nans) {
    int32_t step = 0;
    for (; step + STRIDE <= depth; step += STRIDE) {
        if (step >= 2 * STRIDE && all_at_leaves_@T@(nodes, at)) return;
        for (int k = 0; k < STRIDE; k++) step_@T@(nodes, x, stride, at, nans);
    }
    for (; step < depth; step++) step_@T@(nodes, x, stride, at, nans);
}

GW_INLINE void vote_@T@(const forest *f, const @T@ *weights, int32_t leaf, double *score) {
    const int32_t *range = f->votes + leaf / NODE * 2;
    for (int32_t k = range[0]; k < range[1]; k++) {
        double *mine = score + f->targets[k];
        *mine = folded(*mine, weights[k], f->fold);
    }
}

GW_INLINE void rows_@T@(const forest *f, const char *nodes, const @T@ *x, const @T@ *weights, int64_t rows,
                        double *scores, int nans) {
    const int64_t whole = rows / LANES * LANES, stride = f->features * (int64_t)sizeof(@T@);
    int32_t at[LANES];
    for (int64_t t = 0; t < f->count && whole; t++) {
        for (int64_t row = 0; row < whole; row += LANES) {
            for (int k = 0; k < LANES; k++) at[k] = f->trees[t].root;
            walk_@T@(nodes, (const char *)(x + row * f->features), stride, at, f->trees[t].depth, nans);
            for (int k = 0; k < LANES; k++) vote_@T@(f, weights, at[k], scores + (row + k) * f->size);
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
            walk_@T@(nodes, (const char *)(x + row * f->features), 0, at, depth, nans);
            for (int64_t k = 0; k < left; k++) vote_@T@(f, weights, at[k], scores + row * f->size);
        }
    }
}

static void scored_@T@(void *const *buf, const forest *f, int64_t first, int64_t rows, double *scores) {
    const @T@ *x = (const @T@ *)buf[0] + first * f->features, *weights = buf[5];
    const char *nodes = buf[1];
    @T@ *y = (@T@ *)buf[6] + first * f->size;
    int nans = 0;
    for (int64_t k = 0; k < rows * f->features; k++) nans |= x[k] != x[k];
    const double none = f->fold == MIN || f->fold == MAX ? __builtin_nan("") : 0;
    for (int64_t k = 0; k < rows * f->size; k++) scores[k] = none;
    if (nans)
        rows_@T@(f, nodes, x, weights, rows, scores, 1);
    else
        rows_@T@(f, nodes, x, weights, rows, scores, 0);
    const double count = f->fold == AVERAGE ? (double)f->count : 1;
    const int some = f->fold == MIN || f->fold == MAX;
    for (int64_t k = 0; k < rows * f->size; k++) {
        const double score = scores[k] / count;
        y[k] = some && score != score ? 0 : (@T@)score;
    }
}
"""

_KERNEL: Final = """
/* buf: x, nodes, trees, votes, targets, weights, scores. arg: element size, fold, rows, features, trees,
   size, rows of a block, nodes, votes. */
GW_EXPORT int32_t gw_trees(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    const forest f = {buf[2], buf[3], buf[4], arg[3], arg[4], arg[5], arg[1]};
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit * arg[6], left = arg[2] - first, rows = left < arg[6] ? left : arg[6];
        if (arg[0] == 4)
            scored_float(buf, &f, first, rows, scratch);
        else
            scored_double(buf, &f, first, rows, scratch);
    }
    return 0;
}
"""
