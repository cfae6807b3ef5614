/* Memory: blocks for the contents of files, and pools of objects that are freed with their owner. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Bytes, aligned to 64. */
typedef struct {
    char *data; /* NULL if nothing is allocated */
    size_t size;
} block;

/* Allocates `size` bytes and a terminating 0. Returns false if memory is exhausted. */
bool block_allocate(block *b, size_t size);
void block_free(block *b);

/* The address of empty operands: to kernels, NULL means that an operand is absent. */
extern char no_bytes[64];

/* Allocations that are freed together. */
typedef struct pool_item pool_item;
typedef struct {
    pool_item *last;
} pool;

/* Allocates `count` zeroed items of `size` bytes; NULL if memory is exhausted. */
void *pool_allocate(pool *p, size_t count, size_t size);
char *pool_copy(pool *p, const char *text);
void pool_free(pool *p);
