#include "blocks.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

_Alignas(ALIGNMENT) char no_bytes[64];

bool block_allocate(block *b, size_t size) {
    size_t unit = size < HUGE_PAGE ? ALIGNMENT : HUGE_PAGE;
    *b = (block){0};
    if (size > SIZE_MAX / 2)
        return false;
    size_t bytes = size / unit * unit + unit; /* larger than `size` */
    char *data = aligned_alloc(unit, bytes);
    if (!data)
        return false;
    if (unit == HUGE_PAGE)
        madvise(data, bytes, MADV_HUGEPAGE); /* it is filled at once: fewer page faults */
    data[size] = 0;
    *b = (block){data, size};
    return true;
}

void block_free(block *b) {
    free(b->data);
    *b = (block){0};
}

struct pool_item {
    pool_item *before;
    max_align_t data[];
};

void *pool_allocate(pool *p, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    pool_item *item = calloc(1, sizeof *item + bytes + 1);
    if (!item)
        return NULL;
    item->before = p->last;
    p->last = item;
    return item->data;
}

char *pool_copy(pool *p, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = pool_allocate(p, size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

void pool_free(pool *p) {
    while (p->last) {
        pool_item *before = p->last->before;
        free(p->last);
        p->last = before;
    }
}
