/* Memory: blocks for what files hold, and pools of what lives as long as its owner. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Bytes at an address that is a multiple of 64. */
typedef struct {
    char *data; /* NULL: none */
    size_t size;
} block;

/* Behind the last byte is a 0. False if there is no memory. */
bool block_allocate(block *b, size_t size);
void block_free(block *b);

/* Where an operand without bytes lies: kernels take one without an address for one that is absent. */
extern char no_bytes[64];

/* What is freed together. */
typedef struct pool_item pool_item;
typedef struct {
    pool_item *last;
} pool;

/* `count` zeroed items of `size` bytes; NULL if there is no memory. */
void *pool_allocate(pool *p, size_t count, size_t size);
char *pool_copy(pool *p, const char *text);
void pool_free(pool *p);
