/* Reads the weights that package/pack_weights.py packs: safetensors, with equal tensors stored once. */
#pragma once
#include <stdint.h>

#include "archive.h"
#include "dtype.h"
#include "json.h"

typedef struct {
    const char *name, *kind; /* kind: dtype, and shape if safetensors cannot express them */
    const json *entry;       /* NULL if the bytes are those of an earlier tensor */
    uint64_t start, size;    /* in memory */
    uint64_t stored, stored_size;
    bool repeats; /* stored as run lengths */
} tensor;

typedef struct {
    block content; /* the member */
    block expanded;
    const char *data; /* what tasks read: in `content` or `expanded` */
    uint64_t size;
    json_document header;
    tensor *tensors;
    size_t count;
} weights;

/* Takes ownership of `content`, also on failure. The caller frees the weights in any case. Errors name `a`.
 */
gw_status weights_read(weights *w, const archive *a, block *content);
void weights_free(weights *w);

/* A tensor by name, or NULL. */
const tensor *weights_find(const weights *w, const char *name);
/* The dtype and the shape of a tensor, at most GW_MAX_RANK sizes. Returns false for strings and if it is
   malformed. */
bool tensor_type(const tensor *t, gw_dtype *dtype, int *rank, int64_t *sizes);
