/* Tensors in layouts (see ir/types.py): axes in an order, some of them split into blocks. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "json.h"
#include "program.h"

/* Where the elements of a tensor lie: element i of an axis is `outer` elements for each whole block before
   it, and `inner` for each element in its block, from the first one. */
typedef struct {
    int rank;
    int64_t shape[GW_MAX_RANK], block[GW_MAX_RANK], outer[GW_MAX_RANK], inner[GW_MAX_RANK];
    int64_t elements; /* of the tensor */
    int64_t room;     /* in memory, with those that pad it */
} placement;

/* Of a tensor of the sizes that `shape` lists, in `layout`: null, or its order, blocks and whether pads are
   zero. False where they are malformed. */
bool layout_read(const json *shape, const json *layout, placement *p);

/* Copies elements of `item` bytes (1, 2, 4, 8 or 16) in their order from one placement to another: both have
   as many. False if there is no memory. */
bool layout_copy(const placement *from, const char *source, const placement *to, char *target, size_t item);
