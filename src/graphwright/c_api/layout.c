#include "layout.h"

#include <stdlib.h>
#include <string.h>

/* ---- placements ---- */

static bool read_shape(const json *shape, placement *p) {
    *p = (placement){.elements = 1, .room = 1};
    if (!shape || shape->kind != JSON_LIST || json_count(shape) > GW_MAX_RANK)
        return false;
    JSON_EACH(size, shape) {
        int64_t *axis = &p->shape[p->rank++];
        if (!json_integer(size, axis) || *axis < 0 ||
            __builtin_mul_overflow(p->elements, *axis, &p->elements))
            return false;
        p->block[p->rank - 1] = 1;
    }
    return true;
}

/* An axis and its size, as a list of two numbers. */
static bool read_block(const json *plain, const placement *p, int64_t *axis, int64_t *size) {
    const json *first = json_first(plain);
    return json_count(plain) == 2 && json_integer(first, axis) &&
           json_integer(json_next(plain, first), size) && *axis >= 0 && *axis < p->rank && *size > 0 &&
           *size <= INT32_MAX && p->block[*axis] == 1;
}

/* Places an axis of `count` positions outside all axes placed so far, which take `p->room` elements. */
static bool place_axis(placement *p, int64_t *stride, int64_t count) {
    *stride = p->room;
    return !__builtin_mul_overflow(p->room, count, &p->room);
}

static bool read_blocks(const json *blocks, placement *p) {
    int64_t axes[GW_MAX_RANK], sizes[GW_MAX_RANK];
    int count = 0;
    JSON_EACH(plain, blocks) {
        if (count == GW_MAX_RANK || !read_block(plain, p, &axes[count], &sizes[count]))
            return false;
        p->block[axes[count]] = sizes[count];
        count++;
    }
    while (count-- > 0)
        if (!place_axis(p, &p->inner[axes[count]], sizes[count]))
            return false;
    return true;
}

static bool read_order(const json *order, placement *p) {
    int64_t axes[GW_MAX_RANK];
    bool seen[GW_MAX_RANK] = {false};
    int count = 0;
    if (json_count(order) != p->rank)
        return false;
    JSON_EACH(item, order) {
        if (!json_integer(item, &axes[count]) || axes[count] < 0 || axes[count] >= p->rank ||
            seen[axes[count]])
            return false;
        seen[axes[count++]] = true;
    }
    while (count-- > 0) {
        int64_t axis = axes[count],
                blocks = p->shape[axis] / p->block[axis] + (p->shape[axis] % p->block[axis] > 0);
        if (!place_axis(p, &p->outer[axis], blocks))
            return false;
    }
    return true;
}

bool layout_read(const json *shape, const json *layout, placement *p) {
    if (!read_shape(shape, p))
        return false;
    if (json_is_null(layout)) {
        for (int axis = p->rank - 1; axis >= 0; axis--)
            if (!place_axis(p, &p->outer[axis], p->shape[axis]))
                return false;
        return true;
    }
    const json *order = json_first(layout), *blocks = order ? json_next(layout, order) : NULL;
    return json_count(layout) == 3 && read_blocks(blocks, p) && read_order(order, p);
}

/* ---- copies ---- */

/* Visits the elements of a placement in order. */
typedef struct {
    int rank;
    int64_t shape[GW_MAX_RANK], index[GW_MAX_RANK];
    int64_t before[GW_MAX_RANK];   /* the offset that the axes before each one add */
    int64_t *offsets[GW_MAX_RANK]; /* of each index of an axis */
    int64_t *tables;
} walk;

static bool start_walk(const placement *p, walk *w) {
    int64_t total = 1;
    *w = (walk){.rank = p->rank > 0 ? p->rank : 1, .shape = {1}};
    for (int axis = 0; axis < p->rank; axis++)
        total += w->shape[axis] = p->shape[axis];
    int64_t *next = w->tables = calloc((size_t)total, sizeof *w->tables);
    if (!next)
        return false;
    for (int axis = 0; axis < w->rank; axis++) {
        w->offsets[axis] = next;
        for (int64_t i = 0; axis < p->rank && i < p->shape[axis]; i++)
            *next++ = i / p->block[axis] * p->outer[axis] + i % p->block[axis] * p->inner[axis];
    }
    return true;
}

static inline int64_t offset_of(const walk *w) {
    int last = w->rank - 1;
    return w->before[last] + w->offsets[last][w->index[last]];
}

static inline void step(walk *w) {
    int axis = w->rank - 1;
    if (++w->index[axis] < w->shape[axis])
        return;
    while (axis > 0 && w->index[axis] == w->shape[axis]) {
        w->index[axis] = 0;
        w->index[--axis]++;
    }
    for (; axis < w->rank - 1 && w->index[axis] < w->shape[axis]; axis++)
        w->before[axis + 1] = w->before[axis] + w->offsets[axis][w->index[axis]];
}

#define COPY(type)                                                                                           \
    for (int64_t i = 0; i < elements; i++, step(&source), step(&target))                                     \
    memcpy(to_data + offset_of(&target) * (int64_t)sizeof(type),                                             \
           from_data + offset_of(&source) * (int64_t)sizeof(type), sizeof(type))

static void copy(walk source, const char *from_data, walk target, char *to_data, int64_t elements,
                 size_t item) {
    switch (item) {
    case 1: COPY(uint8_t); break;
    case 2: COPY(uint16_t); break;
    case 4: COPY(uint32_t); break;
    case 8: COPY(uint64_t); break;
    default: COPY(uint64_t[2]); break;
    }
}

bool layout_copy(const placement *from, const char *source, const placement *to, char *target, size_t item) {
    walk reads = {.tables = NULL}, writes = {.tables = NULL};
    if (from->elements == 0)
        return true;
    bool ready = start_walk(from, &reads) && start_walk(to, &writes);
    if (ready)
        copy(reads, source, writes, target, from->elements, item);
    free(reads.tables), free(writes.tables);
    return ready;
}
