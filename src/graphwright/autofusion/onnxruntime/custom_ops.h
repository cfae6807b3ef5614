/* The part of ONNX Runtime's C interface that custom operators need.

   ONNX Runtime ships no header with its wheels. Its table of functions only grows at the end, and its
   documentation gives their order; the few entries that are called are numbered here. RegisterCustomOps asks
   for version 17 of the table (ONNX Runtime 1.17), the first one with all of them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct OrtStatus OrtStatus;
typedef struct OrtValue OrtValue;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtShapeInferContext OrtShapeInferContext;
typedef void (*entry)(void);
typedef const entry *table; /* OrtApi */

typedef struct {
    table (*get_api)(uint32_t version);
    const char *(*get_version)(void);
} OrtApiBase;

enum {
    TABLE_VERSION = 17,
    FIRST_VERSION = 1,
    CREATE_STATUS = 0,
    CREATE_CUSTOM_OP_DOMAIN = 26,
    CUSTOM_OP_DOMAIN_ADD = 27,
    ADD_CUSTOM_OP_DOMAIN = 28,
    GET_TENSOR_MUTABLE_DATA = 51,
    GET_DIMENSIONS_COUNT = 61,
    GET_DIMENSIONS = 62,
    GET_TENSOR_TYPE_AND_SHAPE = 65,
    GET_INPUT = 90,
    GET_OUTPUT = 91,
    RELEASE_STATUS = 93,
    RELEASE_TENSOR_TYPE_AND_SHAPE_INFO = 99,
    ADD_SESSION_CONFIG_ENTRY = 130,
    HAS_SESSION_CONFIG_ENTRY = 237,
    PARALLEL_FOR = 274,
    FAIL = 1,
    INVALID_ARGUMENT = 2
};

typedef struct OrtCustomOp OrtCustomOp;
struct OrtCustomOp {
    uint32_t version;
    void *(*create_kernel)(const OrtCustomOp *op, table api, const OrtKernelInfo *info);
    const char *(*get_name)(const OrtCustomOp *op);
    const char *(*get_execution_provider_type)(const OrtCustomOp *op);
    int (*get_input_type)(const OrtCustomOp *op, size_t index);
    size_t (*get_input_type_count)(const OrtCustomOp *op);
    int (*get_output_type)(const OrtCustomOp *op, size_t index);
    size_t (*get_output_type_count)(const OrtCustomOp *op);
    void (*kernel_compute)(void *kernel, OrtKernelContext *context);
    void (*kernel_destroy)(void *kernel);
    int (*get_input_characteristic)(const OrtCustomOp *op, size_t index);
    int (*get_output_characteristic)(const OrtCustomOp *op, size_t index);
    int (*get_input_memory_type)(const OrtCustomOp *op, size_t index);
    int (*get_variadic_input_min_arity)(const OrtCustomOp *op);
    int (*get_variadic_input_homogeneity)(const OrtCustomOp *op);
    int (*get_variadic_output_min_arity)(const OrtCustomOp *op);
    int (*get_variadic_output_homogeneity)(const OrtCustomOp *op);
    OrtStatus *(*create_kernel_v2)(const OrtCustomOp *op, table api, const OrtKernelInfo *info,
                                   void **kernel);
    OrtStatus *(*kernel_compute_v2)(void *kernel, OrtKernelContext *context);
    OrtStatus *(*infer_output_shape)(const OrtCustomOp *op, OrtShapeInferContext *context);
    int (*get_start_version)(const OrtCustomOp *op);
    int (*get_end_version)(const OrtCustomOp *op);
};
