/* Tensors in layouts (see ir/types.py): an order of the axes, some of them split into blocks. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "json.h"
#include "program.h"

/* Where the elements of a tensor are in memory: index i of an axis contributes
   i / block * outer + i % block * inner elements to the offset. */
typedef struct {
    int rank;
    int64_t shape[GW_MAX_RANK], block[GW_MAX_RANK], outer[GW_MAX_RANK], inner[GW_MAX_RANK];
    int64_t elements; /* of the tensor */
    int64_t room;     /* elements in memory, including padding */
} placement;

/* The placement of a tensor of `shape` in `layout`: null, or [order, blocks, whether the padding is zero].
   Returns false if they are malformed. */
bool layout_read(const json *shape, const json *layout, placement *p);

/* Copies the elements, of `item` bytes (1, 2, 4, 8 or 16), from one placement to another with the same number
   of elements. Returns false if memory is exhausted. */
bool layout_copy(const placement *from, const char *source, const placement *to, char *target, size_t item);
