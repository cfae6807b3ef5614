/* Weights as package/weights.py writes them: safetensors, in which tensors that repeat are there once. */
#pragma once
#include <stdint.h>

#include "archive.h"
#include "dtype.h"
#include "json.h"

typedef struct {
    const char *name, *kind; /* the kind is text: dtype, and shape where the format names neither */
    const json *entry;       /* NULL where the bytes are an earlier tensor's */
    uint64_t start, size;    /* in memory */
    uint64_t stored, stored_size;
    bool repeats; /* stored as runs */
} tensor;

typedef struct {
    block content; /* the member */
    block expanded;
    const char *data; /* what tasks read, in one of them */
    uint64_t size;
    json_document header;
    tensor *tensors;
    size_t count;
} weights;

/* Takes `content` over, also where it fails; free the weights in any case. `a` is named in errors. */
gw_status weights_read(weights *w, const archive *a, block *content);
void weights_free(weights *w);

/* A tensor by name, or NULL. */
const tensor *weights_find(const weights *w, const char *name);
/* What a tensor is: its dtype and its sizes, GW_MAX_RANK at most. False for texts and what is malformed. */
bool tensor_type(const tensor *t, gw_dtype *dtype, int *rank, int64_t *sizes);
