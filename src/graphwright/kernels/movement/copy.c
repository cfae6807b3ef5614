/* Strided copies: see copy.py. */

#include "movement/copy.gen.h"

#include "movement/transposition.h"

/* Limits of transposed blocks: MOST rows, MANY elements. Results of STREAMED_BYTES or more bypass the caches;
 * blocks of REPEATED_BYTES stay in L2. */
enum { MOST = 1024, MANY = 256, FEW = 8, STREAMED_BYTES = 1 << 22, REPEATED_BYTES = 1 << 18 };

/* A loop nest over n[0] .. n[rank-1]; strides in bytes. There is room for an axis of size 1 in front. */
typedef struct {
    int rank;
    int64_t n[RANK + 1], d[RANK + 1], s[RANK + 1];
    char *dst;
    const char *src;
} nest;

/* Normalizes a loop nest: drops axes of size 1, makes destination strides positive, sorts axes by destination
 * stride, and merges adjacent axes. */
static void nest_normalize(nest *t) {
    int kept = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t n = t->n[i], d = t->d[i], s = t->s[i];
        if (n == 1)
            continue;
        if (d < 0) {
            t->dst += (n - 1) * d;
            t->src += (n - 1) * s;
            d = -d;
            s = -s;
        }
        int at = kept++;
        for (; at > 0 && t->d[at - 1] < d; at--) {
            t->n[at] = t->n[at - 1];
            t->d[at] = t->d[at - 1];
            t->s[at] = t->s[at - 1];
        }
        t->n[at] = n;
        t->d[at] = d;
        t->s[at] = s;
    }
    int last = 0;
    for (int i = 1; i < kept; i++) {
        if (t->d[last] == t->d[i] * t->n[i] && t->s[last] == t->s[i] * t->n[i]) {
            t->n[last] *= t->n[i];
        } else {
            last++;
            t->n[last] = t->n[i];
        }
        t->d[last] = t->d[i];
        t->s[last] = t->s[i];
    }
    t->rank = kept ? last + 1 : 0;
}

static int64_t nest_bytes(const nest *t, int64_t size) {
    int64_t total = size;
    for (int i = 0; i < t->rank; i++)
        total *= t->n[i];
    return total;
}

static void nest_swap(nest *t, int a, int b) {
    int64_t n = t->n[a], d = t->d[a], s = t->s[a];
    t->n[a] = t->n[b];
    t->d[a] = t->d[b];
    t->s[a] = t->s[b];
    t->n[b] = n;
    t->d[b] = d;
    t->s[b] = s;
}

static void nest_prepend(nest *t) {
    for (int i = t->rank++; i > 0; i--) {
        t->n[i] = t->n[i - 1];
        t->d[i] = t->d[i - 1];
        t->s[i] = t->s[i - 1];
    }
    t->n[0] = 1;
    t->d[0] = t->s[0] = 0;
}

/* Whether ROWS can transpose in registers: 4 dense rows of src along axis i become dense columns of dst, or
 * the reverse. */
static int nest_is_woven(const nest *t, int i, int64_t size) {
    const int inner = t->rank - 1;
    return (t->n[i] == 4 && t->s[inner] == 4 * size) || (t->n[inner] == 4 && t->d[i] == 4 * size);
}

/* Moves the axis along which src is contiguous next to the one along which dst is; returns 0 if there is
 * none. */
static int nest_find_transposition(nest *t, int64_t size) {
    int inner = t->rank - 1;
    if (t->d[inner] != size || t->s[inner] == size || t->n[inner] < 4)
        return 0;
    for (int i = 0; i < inner; i++) {
        if (t->s[i] == size && t->n[i] >= 4 && !nest_is_woven(t, i, size)) {
            for (; i < inner - 1; i++) /* the other axes keep their order */
                nest_swap(t, i, i + 1);
            return 1;
        }
    }
    return 0;
}

/* Large results: moves the axis with the smallest source stride next to the contiguous runs, so that src is
 * read in order. */
static void nest_follow_source(nest *t, int64_t size) {
    int64_t near = t->rank - 2;
    if (nest_bytes(t, size) < STREAMED_BYTES)
        return;
    for (int i = t->rank - 3; i >= 0; i--)
        if (t->s[i] > 0 && t->s[i] < t->s[near])
            near = i;
    for (; near < t->rank - 2; near++)
        nest_swap(t, (int)near, (int)near + 1);
}

/* If there are few rows, moves an axis with more rows next to the runs, so that a block has many runs, all of
 * which stay in L1. */
static void nest_lengthen_rows(nest *t) {
    const int r = t->rank - 2;
    for (int i = r - 1; i >= 0 && t->n[r] < FEW; i--) {
        if (t->n[i] < FEW || t->n[i] * t->d[i] > BLOCK_BYTES)
            continue;
        nest_swap(t, i, r);
        return;
    }
}

/* Blocks of the two innermost axes, rows and columns; the last block of an axis takes the rest. */
typedef struct {
    int64_t size[2], count[2];
    int64_t shift; /* missing elements of the first column block, so that the others begin at cache lines of
                      dst */
    int fastest;   /* the axis that varies fastest */
} blocking;

/* Few rows share blocks of columns: they may share cache lines of src or of dst. */
static blocking plain_blocks(const int64_t *n, int64_t size, int contiguous) {
    const int64_t together = !contiguous && n[0] <= FEW ? n[0] : 1, most = BLOCK_BYTES / (size * together);
    int64_t cols = n[1] < most ? n[1] : most, rows = BLOCK_BYTES / (cols * size);
    return (blocking){{rows, cols}, {(n[0] + rows - 1) / rows, (n[1] + cols - 1) / cols}, 0, 1};
}

/* Blocks of one line of dst by many rows, since they read src in order, which matters most; or of one line of
 * src by many columns. An axis shorter than a tile leaves room for a long block of the other. */
static blocking transposed_blocks(const nest *t, int64_t size, int stream) {
    const int64_t *n = t->n + t->rank - 2, line = LINE_BYTES / size;
    int64_t strides = 0;
    for (int i = 0; i < t->rank - 1; i++)
        strides |= t->d[i];
    /* a vector writes a whole line, and few enough rows are read at once */
    int whole = sizeof(vi) == LINE_BYTES && size >= 4;
    int tall = stream || (whole && (n[0] >= n[1] || n[0] >= MANY));
    blocking b = {{tall ? MOST : line, tall ? line : MANY}, {1, 1}, 0, tall};
    if ((n[0] < n[1] ? n[0] : n[1]) * size < 16)
        b.size[0] = b.size[1] = MOST;
    if (strides % LINE_BYTES == 0)
        b.shift = (int64_t)((uintptr_t)t->dst % LINE_BYTES) / size;
    if (n[0] > b.size[0])
        b.count[0] = n[0] / b.size[0];
    if (n[1] + b.shift > b.size[1])
        b.count[1] = (n[1] + b.shift) / b.size[1];
    return b;
}

/* ---- blocks that repeat others: src is read once, and dst is copied within the cache ---- */

/* The first axis of the greatest dense block of dst that repeats a block inside it and stays in L2; the rank
 * if there is none. */
static int nest_find_repeats(const nest *t, int64_t size) {
    int64_t bytes = size;
    int first = t->rank, repeats = 0;
    for (int i = t->rank - 1; i >= 0 && t->d[i] == bytes && t->n[i] <= REPEATED_BYTES / bytes; i--) {
        bytes *= t->n[i];
        repeats |= t->s[i] == 0 && i < t->rank - 1;
        if (repeats)
            first = i;
    }
    return first;
}

static int is_element_size(int64_t bytes) { return bytes <= 16 && (bytes & (bytes - 1)) == 0; }

/* Copies `n` rows of short dense runs, each of which is repeated along the axis `r`; false if others are
 * faster. */
static int copy_runs(const nest *t, int r, int64_t n, char *dst, const char *src, int64_t size) {
    const int64_t run = t->n[r + 1] * size, *d = t->d + r - 1, *s = t->s + r - 1;
    if (t->s[r] != 0 || t->s[r + 1] != size)
        return 0;
    if (is_element_size(run)) {
        ROWS[size_index(run)](dst, d, src, s, n, t->n[r]);
        return 1;
    }
    const int64_t to[2] = {d[0], size}, from[2] = {s[0], size};
    for (int64_t i = 0; i < t->n[r] && t->n[r] <= FEW; i++)
        ROWS[size_index(size)](dst + i * run, to, src, from, n, t->n[r + 1]);
    return t->n[r] <= FEW;
}

/* Copies `n` indices of an axis, with all of the axes inside it. */
static void copy_repeated(const nest *t, int axis, int64_t n, char *dst, const char *src, int64_t size) {
    const int64_t d = t->d[axis], s = t->s[axis], one[2] = {0, d}, from[2] = {0, s};
    const int inner = axis + 1, rest = t->rank - inner;
    const int repeats = rest > 0 && s == 0 && d == t->n[inner] * t->d[inner];
    if (rest == 0) {
        ROWS[size_index(size)](dst, one, src, from, 1, n);
    } else if (rest == 1 && !repeats) {
        ROWS[size_index(size)](dst, t->d + axis, src, t->s + axis, n, t->n[inner]);
    } else if (rest != 2 || repeats || !copy_runs(t, inner, n, dst, src, size)) {
        for (int64_t i = 0; i < (repeats ? 1 : n); i++)
            copy_repeated(t, inner, t->n[inner], dst + i * d, src + i * s, size);
        if (repeats)
            repeat_run(dst, d, n);
    }
}

/* Makes the axes from `first` on one block, with the axis before it in `blocks`. */
static nest nest_split(nest *t, int first, int64_t bytes) {
    nest blocks = {.rank = 0};
    if (first == 0) {
        nest_prepend(t);
        first = 1;
    }
    for (int i = first - 1; i < t->rank; i++, blocks.rank++) {
        blocks.n[blocks.rank] = t->n[i];
        blocks.d[blocks.rank] = t->d[i];
        blocks.s[blocks.rank] = t->s[i];
    }
    t->rank = first + 1;
    t->n[first] = 1;
    t->d[first] = bytes;
    t->s[first] = 0;
    return blocks;
}

/* How the two innermost axes of a nest are copied. */
typedef struct {
    blocking blocks;
    block_copy *copy;
    int streams;   /* whether the results bypass the caches */
    nest repeated; /* of a block of rows, if its rank is not 0: see copy_repeated */
} copy_plan;

/* Orders the axes of a nest, which then has at least two, and chooses its blocks. */
static copy_plan nest_plan(nest *t, int64_t size) {
    nest_normalize(t);
    const int first = nest_find_repeats(t, size);
    if (first < t->rank) {
        const int64_t bytes = t->n[first] * t->d[first], rows = bytes < BLOCK_BYTES ? BLOCK_BYTES / bytes : 1;
        const nest repeated = nest_split(t, first, bytes);
        const blocking blocks = {{rows, 1}, {(t->n[t->rank - 2] + rows - 1) / rows, 1}, 0, 1};
        return (copy_plan){blocks, NULL, 0, repeated};
    }
    while (t->rank < 2)
        nest_prepend(t);
    const int r = t->rank - 2;
    const int transposed = nest_find_transposition(t, size);
    const int contiguous = t->d[r + 1] == size && t->s[r + 1] == size;
    const int strided = t->d[r + 1] == size && t->n[r + 1] > FEW;
    if (!transposed && !contiguous && !strided && t->n[r] > t->n[r + 1])
        nest_swap(t, r, r + 1); /* the longer loop inside */
    if (contiguous) {
        nest_lengthen_rows(t);
        nest_follow_source(t, size);
    }
    const int k = size_index(size), streams = transposed && nest_bytes(t, size) >= STREAMED_BYTES;
    if (!transposed)
        return (copy_plan){plain_blocks(t->n + r, size, contiguous), ROWS[k], 0, {0}};
    return (copy_plan){
        transposed_blocks(t, size, streams), (streams ? STREAMED : TRANSPOSE)[k], streams, {0}};
}

/* A position in the sequence of blocks: the index on each outer axis of the nest, and of the block on each of
 * the two innermost axes. */
typedef struct {
    int rank, axis[RANK]; /* the axes in the order of the sequence, the fastest last */
    int64_t count[RANK], index[RANK];
} position;

/* The first position of the sequence; `items` is its length. */
static position first_position(const nest *t, const blocking *b, int64_t *items) {
    const int r = t->rank - 2;
    position p = {.rank = t->rank};
    *items = 1;
    for (int i = 0; i < p.rank; i++) {
        p.axis[i] = i < r ? i : r + (i > r ? b->fastest : 1 - b->fastest);
        p.count[i] = i < r ? t->n[i] : b->count[i - r];
        *items *= p.count[i];
    }
    return p;
}

static void move_to(position *p, int64_t item) {
    for (int i = p->rank - 1; i >= 0; i--) {
        p->index[p->axis[i]] = item % p->count[p->axis[i]];
        item /= p->count[p->axis[i]];
    }
}

static void move_on(position *p) {
    for (int i = p->rank - 1; i >= 0 && ++p->index[p->axis[i]] == p->count[p->axis[i]]; i--)
        p->index[p->axis[i]] = 0;
}

/* Copies the block at a position. */
static void copy_block_at(const nest *t, const copy_plan *plan, const int64_t *index, int64_t size) {
    const blocking *b = &plan->blocks;
    const int r = t->rank - 2;
    char *dst = t->dst;
    const char *src = t->src;
    for (int i = 0; i < r; i++) {
        dst += index[i] * t->d[i];
        src += index[i] * t->s[i];
    }
    int64_t row = index[r] * b->size[0], col = index[r + 1] * b->size[1] - b->shift;
    int64_t rows = (index[r] + 1 == b->count[0] ? t->n[r] : row + b->size[0]) - row;
    int64_t stop = index[r + 1] + 1 == b->count[1] ? t->n[r + 1] : col + b->size[1];
    col = col < 0 ? 0 : col;
    if (plan->repeated.rank > 0)
        copy_repeated(&plan->repeated, 0, rows, dst + row * t->d[r], src + row * t->s[r], size);
    else
        plan->copy(dst + row * t->d[r] + col * t->d[r + 1], t->d + r, src + row * t->s[r] + col * t->s[r + 1],
                   t->s + r, rows, stop - col);
}

/* Copies what units [begin, end) of `grid` process. */
static void nest_copy(nest *t, int64_t size, int64_t grid, int64_t begin, int64_t end) {
    if (nest_bytes(t, size) == 0)
        return;
    const copy_plan plan = nest_plan(t, size);
    int64_t items, first, last;
    position p = first_position(t, &plan.blocks, &items);
    unit_items(items, grid, begin, end, &first, &last);
    move_to(&p, first);
    for (int64_t item = first; item < last; item++) {
        copy_block_at(t, &plan, p.index, size);
        move_on(&p);
    }
    if (plan.streams)
        end_stream();
}

GW_KERNEL(gw_copy_nd) {
    (void)scratch;
    const struct copy_args *a = copy_args(arg);
    const int64_t size = a->size;
    nest t = {
        .rank = RANK,
        .dst = (char *)buf[COPY_DST] + a->dst_offset * size,
        .src = (const char *)buf[COPY_SRC] + a->src_offset * size,
    };
    for (int i = 0; i < RANK; i++) {
        t.n[i] = a->n[i];
        t.d[i] = a->d[i] * size;
        t.s[i] = a->s[i] * size;
    }
    nest_copy(&t, size, a->units, begin, end);
    return 0;
}
