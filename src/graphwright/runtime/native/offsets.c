#include "offsets.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t size, index;
} sized;

static int larger_first(const void *a, const void *b) {
    const sized *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

typedef struct {
    int64_t begin, end;
} extent;

/* The smallest gap of at least `size` between the extents, which are sorted by their begin; or the end of
 * all. */
static int64_t best_gap(const extent *taken, int64_t count, int64_t size) {
    int64_t best = -1, best_gap = INT64_MAX, end = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t gap = taken[i].begin - end;
        if (gap >= size && gap < best_gap)
            best = end, best_gap = gap;
        if (taken[i].end > end)
            end = taken[i].end;
    }
    return best >= 0 ? best : end;
}

static void add_in_order(extent *taken, int64_t count, extent added) {
    for (; count > 0 && taken[count - 1].begin > added.begin; count--)
        taken[count] = taken[count - 1];
    taken[count] = added;
}

/* Makes conflicts symmetric: those of buffer i become other[first[i]] .. other[first[i + 1]]. */
static void turn_both_ways(int64_t count, const int64_t *starts, const int64_t *conflicts, int64_t *first,
                           int64_t *other) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = starts[i]; j < starts[i + 1]; j++)
            first[i + 2]++, first[conflicts[j] + 2]++;
    for (int64_t i = 0; i < count; i++)
        first[i + 2] += first[i + 1];
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = starts[i]; j < starts[i + 1]; j++) {
            other[first[i + 1]++] = conflicts[j];
            other[first[conflicts[j] + 1]++] = i;
        }
}

/* The buffers to place, and working memory. */
typedef struct {
    int64_t count;
    const int64_t *sizes;         /* multiples of the alignment */
    const int64_t *first, *other; /* symmetric conflicts */
    extent *taken;
    int64_t work, most_work; /* extents examined so far, and the maximum */
} placing;

/* Places the buffers from position `start` of the order on, each in the smallest gap between those before it.
   Returns the size of the arena in bytes, or INT64_MAX as soon as it exceeds `limit`. */
static int64_t place_from(placing *p, const int64_t *order, int64_t start, int64_t limit, int64_t *offsets) {
    int64_t arena = 0;
    for (int64_t i = 0; i < start; i++)
        if (offsets[order[i]] + p->sizes[order[i]] > arena)
            arena = offsets[order[i]] + p->sizes[order[i]];
    for (int64_t i = start; i < p->count; i++)
        offsets[order[i]] = -1;
    for (int64_t i = start; i < p->count; i++) {
        int64_t index = order[i], size = p->sizes[index], found = 0, end;
        p->work += p->first[index + 1] - p->first[index] + 1;
        for (int64_t j = p->first[index]; j < p->first[index + 1]; j++) {
            int64_t other = p->other[j];
            if (offsets[other] >= 0 && p->sizes[other] > 0)
                add_in_order(p->taken, found++, (extent){offsets[other], offsets[other] + p->sizes[other]});
        }
        offsets[index] = size > 0 ? best_gap(p->taken, found, size) : 0;
        if (__builtin_add_overflow(offsets[index], size, &end) || end > limit)
            return INT64_MAX;
        if (end > arena)
            arena = end;
    }
    return arena;
}

/* The size of the heaviest clique of conflicts, a lower bound of the arena: exact if they are conflicts of
   intervals, as in one stream. Maximum cardinality search: Tarjan and Yannakakis, Simple Linear-Time
   Algorithms to Test Chordality of Graphs, 1984. `seen` counts the conflicts with buffers that were visited;
   -1 of one that was.
 */
static int64_t heaviest_clique(const placing *p, int64_t *seen) {
    int64_t heaviest = 0;
    for (int64_t i = 0; i < p->count; i++)
        seen[i] = p->sizes[i] > 0 ? 0 : -1;
    for (;;) {
        int64_t next = -1, weight;
        for (int64_t i = 0; i < p->count; i++)
            if (seen[i] >= 0 && (next < 0 || seen[i] > seen[next]))
                next = i;
        if (next < 0)
            return heaviest;
        weight = p->sizes[next];
        seen[next] = -1;
        for (int64_t j = p->first[next]; j < p->first[next + 1]; j++) {
            int64_t other = p->other[j];
            if (seen[other] >= 0)
                seen[other]++;
            else if (__builtin_add_overflow(weight, p->sizes[other], &weight))
                return INT64_MAX;
        }
        if (weight > heaviest)
            heaviest = weight;
    }
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
    return *state >> 33;
}

/* Moves the item at `from` to `to`, which must not be after it. */
static void advance(int64_t *order, int64_t from, int64_t to) {
    int64_t item = order[from];
    memmove(order + to + 1, order + to, (size_t)(from - to) * sizeof *order);
    order[to] = item;
}

/* The position in `order` of a buffer that determines the size of the arena: the one that ends where the
   arena ends, or one that conflicts with it. */
static int64_t blocking(const placing *p, const int64_t *order, const int64_t *offsets, int64_t arena,
                        uint64_t *state) {
    int64_t top = -1;
    for (int64_t i = 0; i < p->count && top < 0; i++)
        if (p->sizes[order[i]] > 0 && offsets[order[i]] + p->sizes[order[i]] == arena)
            top = i;
    int64_t buffer = order[top], degree = p->first[buffer + 1] - p->first[buffer];
    if (top > 0 && (degree == 0 || next_random(state) % 2))
        return top;
    int64_t other = p->other[p->first[buffer] + (int64_t)(next_random(state) % (uint64_t)degree)];
    for (int64_t i = 0; i < p->count; i++)
        if (order[i] == other)
            return i;
    return top;
}

/* Iterated greedy search: places a blocking buffer earlier and keeps orders that are not worse. Ruiz and
   Stuetzle, A Simple and Effective Iterated Greedy Algorithm, 2007. It is bounded by steps, not by time,
   so that all machines give the same result. */
static int64_t search(placing *p, int64_t *best, int64_t *offsets, int64_t *trial, int64_t *trial_offsets,
                      int64_t arena, int64_t bound) {
    uint64_t state = 1;
    while (arena > bound && p->work < p->most_work) {
        p->work += p->count;
        int64_t from = blocking(p, best, offsets, arena, &state);
        if (from == 0)
            continue;
        int64_t to = (int64_t)(next_random(&state) % (uint64_t)from);
        memcpy(trial, best, (size_t)p->count * sizeof *trial);
        memcpy(trial_offsets, offsets, (size_t)p->count * sizeof *offsets);
        advance(trial, from, to);
        int64_t found = place_from(p, trial, to, arena, trial_offsets);
        if (found > arena)
            continue;
        arena = found;
        memcpy(best, trial, (size_t)p->count * sizeof *best);
        memcpy(offsets, trial_offsets, (size_t)p->count * sizeof *offsets);
    }
    return arena;
}

static bool round_sizes(int64_t count, const int64_t *sizes, int64_t *rounded, gw_error *error) {
    for (int64_t i = 0; i < count; i++) {
        if (sizes[i] < 0 || sizes[i] > INT64_MAX - GW_ALIGNMENT)
            return gw_fail(error, GW_E_PLAN, "buffer %lld has %lld bytes", (long long)i, (long long)sizes[i]);
        rounded[i] = (sizes[i] + GW_ALIGNMENT - 1) / GW_ALIGNMENT * GW_ALIGNMENT;
    }
    return true;
}

/* Greedy by size with best fit (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference,
   2020), then a search for better orders while the arena is above its lower bound. */
static bool place_in_best_order(placing *p, int64_t *rows, sized *by_size, int64_t *offsets, int64_t *arena,
                                gw_error *error) {
    int64_t *order = rows, *trial = rows + p->count, *trial_offsets = rows + 2 * p->count;
    for (int64_t i = 0; i < p->count; i++)
        by_size[i] = (sized){p->sizes[i], i};
    qsort(by_size, (size_t)p->count, sizeof *by_size, larger_first);
    for (int64_t i = 0; i < p->count; i++)
        order[i] = by_size[i].index;
    *arena = place_from(p, order, 0, INT64_MAX, offsets);
    if (*arena == INT64_MAX)
        return gw_fail(error, GW_E_PLAN, "the arena's size overflows");
    *arena = search(p, order, offsets, trial, trial_offsets, *arena, heaviest_clique(p, trial));
    return true;
}

bool gw_plan_memory(int64_t count, const int64_t *sizes, const int64_t *starts, const int64_t *conflicts,
                    int64_t work, int64_t *offsets, int64_t *arena_bytes, gw_error *error) {
    size_t length = (size_t)count + 2, edges = 2 * (size_t)starts[count] + 1;
    sized *by_size = calloc(1, length * (sizeof *by_size + 5 * sizeof(int64_t)) +
                                   edges * (sizeof(int64_t) + sizeof(extent)));
    if (!by_size)
        return gw_fail_memory(error);
    int64_t *first = (int64_t *)(by_size + length), *rounded = first + length, *rows = rounded + length,
            *other = rows + 3 * length;
    extent *taken = (extent *)(other + edges);
    bool done = round_sizes(count, sizes, rounded, error);
    if (done) {
        turn_both_ways(count, starts, conflicts, first, other);
        placing p = {count, rounded, first, other, taken, 0, work};
        done = place_in_best_order(&p, rows, by_size, offsets, arena_bytes, error);
    }
    free(by_size);
    return done;
}
