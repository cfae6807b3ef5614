/* DLPack's table of functions for exchange without Python calls (dlpack.h of version 1.3, Apache-2.0): the
   part of it that is used here. A type of tensors has it as a capsule, `__dlpack_c_exchange_api__`. */
#pragma once
#include <stdint.h>

#define DLPACK_MAJOR 1
#define DLPACK_CPU 1

typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dlpack_tensor;

typedef struct dlpack_managed {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dlpack_managed *);
    uint64_t flags;
    dlpack_tensor tensor;
} dlpack_managed;

typedef struct {
    uint32_t major, minor;
    void *previous;
    int (*allocate)(dlpack_tensor *prototype, dlpack_managed **made, void *context,
                    void (*fail)(void *context, const char *kind, const char *message));
    int (*managed_from_object)(void *object, dlpack_managed **made);
    int (*object_from_managed)(dlpack_managed *tensor, void **object);
    int (*tensor_from_object)(void *object, dlpack_tensor *seen);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **stream);
} dlpack_exchange;
