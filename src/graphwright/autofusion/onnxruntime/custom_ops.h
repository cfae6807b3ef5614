/* What operators of our own need of ONNX Runtime's C interface.

   ONNX Runtime ships no header with its wheels. Its table of functions only grows at the end, and its
   documentation gives their order; the few entries that are called are numbered here. RegisterCustomOps asks
   for version 17 of the table (ONNX Runtime 1.17), the first one with all of them. */
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
    RELEASE_TENSOR_TYPE_AND_SHAPE_INFO = 99,
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

/* -- one call of an operator
 * --------------------------------------------------------------------------------------- */

enum { MOST_RANK = 16, MOST_SCRATCH = 1 << 16, PARALLEL_NS = 40000, CHUNKS = 16 };

typedef int32_t kernel_function(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                void *scratch);

static table api;

typedef struct {
    OrtKernelContext *context;
    const char *name;
    OrtStatus *status;
} call;

static OrtStatus *failure(int code, const char *message) {
    return ((OrtStatus * (*)(int, const char *)) api[CREATE_STATUS])(code, message);
}

/* The elements of input `index`, and its sizes; null after an error. */
__attribute__((unused)) static void *input(call *c, size_t index, int64_t rank, int64_t *dims) {
    const OrtValue *value = NULL;
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t found = 0;
    void *data = NULL;
    if (c->status)
        return NULL;
    c->status = ((OrtStatus * (*)(const OrtKernelContext *, size_t, const OrtValue **))
                     api[GET_INPUT])(c->context, index, &value);
    if (!c->status)
        c->status = ((OrtStatus * (*)(const OrtValue *, OrtTensorTypeAndShapeInfo **))
                         api[GET_TENSOR_TYPE_AND_SHAPE])(value, &info);
    if (!c->status)
        c->status = ((OrtStatus * (*)(const OrtTensorTypeAndShapeInfo *, size_t *))
                         api[GET_DIMENSIONS_COUNT])(info, &found);
    if (!c->status && (int64_t)found != rank)
        c->status = failure(INVALID_ARGUMENT, c->name);
    if (!c->status && rank)
        c->status = ((OrtStatus * (*)(const OrtTensorTypeAndShapeInfo *, int64_t *, size_t))
                         api[GET_DIMENSIONS])(info, dims, found);
    if (!c->status)
        c->status = ((OrtStatus * (*)(const OrtValue *, void **)) api[GET_TENSOR_MUTABLE_DATA])(value, &data);
    if (info)
        ((void (*)(OrtTensorTypeAndShapeInfo *))api[RELEASE_TENSOR_TYPE_AND_SHAPE_INFO])(info);
    return c->status ? NULL : data;
}

/* Memory for output `index`; null after an error. */
__attribute__((unused)) static void *output(call *c, size_t index, int64_t rank, const int64_t *dims) {
    OrtValue *value = NULL;
    void *data = NULL;
    if (c->status)
        return NULL;
    c->status = ((OrtStatus * (*)(OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **))
                     api[GET_OUTPUT])(c->context, index, dims, (size_t)rank, &value);
    if (!c->status)
        c->status = ((OrtStatus * (*)(const OrtValue *, void **)) api[GET_TENSOR_MUTABLE_DATA])(value, &data);
    return c->status ? NULL : data;
}

/* Refuses sizes that the kernel was not made for: it would read beyond its operands. */
__attribute__((unused)) static void expect(call *c, int64_t given, int64_t wanted) {
    if (!c->status && given != wanted)
        c->status = failure(INVALID_ARGUMENT, c->name);
}

typedef struct {
    kernel_function *kernel;
    void *const *buf;
    const int64_t *arg;
    int64_t grid, chunks;
    int32_t failed;
} launch;

static void run_chunk(void *user, size_t index) {
    launch *l = user;
    _Alignas(64) char scratch[MOST_SCRATCH];
    const int64_t begin = l->grid * (int64_t)index / l->chunks,
                  end = l->grid * (int64_t)(index + 1) / l->chunks;
    if (begin < end && l->kernel(l->buf, l->arg, begin, end, scratch))
        __atomic_store_n(&l->failed, 1, __ATOMIC_RELAXED);
}

/* Runs `grid` units of a kernel that takes about `ns` nanoseconds of one core, in ONNX Runtime's threads. */
__attribute__((unused)) static void run(call *c, kernel_function *kernel, void *const *buf,
                                        const int64_t *arg, int64_t grid, int64_t ns) {
    launch l = {kernel, buf, arg, grid, ns < PARALLEL_NS ? 1 : grid < CHUNKS ? grid : CHUNKS, 0};
    if (c->status || grid <= 0)
        return;
    if (l.chunks < 2)
        run_chunk(&l, 0);
    else
        c->status =
            ((OrtStatus * (*)(const OrtKernelContext *, void (*)(void *, size_t), size_t, size_t, void *))
                 api[PARALLEL_FOR])(c->context, run_chunk, (size_t)l.chunks, 0, &l);
    if (!c->status && l.failed)
        c->status = failure(FAIL, c->name);
}

/* -- operators
 * ----------------------------------------------------------------------------------------------------- */

typedef struct {
    OrtCustomOp base;
    const char *name, *misfit;
    const int *input_types, *output_types;
    size_t inputs, outputs;
    void (*const *compute)(call *c); /* by level of the CPU */
} operation;

static int level; /* 0: AVX2 and FMA; 1: AVX-512 */

static const char *get_name(const OrtCustomOp *op) { return ((const operation *)op)->name; }
static const char *get_provider(const OrtCustomOp *op) {
    (void)op;
    return NULL; /* the CPU */
}
static int get_input_type(const OrtCustomOp *op, size_t index) {
    return ((const operation *)op)->input_types[index];
}
static int get_output_type(const OrtCustomOp *op, size_t index) {
    return ((const operation *)op)->output_types[index];
}
static size_t get_input_count(const OrtCustomOp *op) { return ((const operation *)op)->inputs; }
static size_t get_output_count(const OrtCustomOp *op) { return ((const operation *)op)->outputs; }
static int get_zero(const OrtCustomOp *op, size_t index) {
    (void)op, (void)index;
    return 0; /* required, in default memory */
}
static int get_one(const OrtCustomOp *op) {
    (void)op;
    return 1;
}
static int get_end(const OrtCustomOp *op) {
    (void)op;
    return INT32_MAX;
}
static OrtStatus *create(const OrtCustomOp *op, table own, const OrtKernelInfo *info, void **kernel) {
    (void)own, (void)info;
    *kernel = (void *)op;
    return NULL;
}
static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
    const operation *op = kernel;
    call c = {context, op->misfit, NULL};
    op->compute[level](&c);
    return c.status;
}
static void destroy(void *kernel) { (void)kernel; }

#define CUSTOM_OP                                                                                            \
    {TABLE_VERSION,                                                                                          \
     NULL,                                                                                                   \
     get_name,                                                                                               \
     get_provider,                                                                                           \
     get_input_type,                                                                                         \
     get_input_count,                                                                                        \
     get_output_type,                                                                                        \
     get_output_count,                                                                                       \
     NULL,                                                                                                   \
     destroy,                                                                                                \
     get_zero,                                                                                               \
     get_zero,                                                                                               \
     get_zero,                                                                                               \
     get_one,                                                                                                \
     get_one,                                                                                                \
     get_one,                                                                                                \
     get_one,                                                                                                \
     create,                                                                                                 \
     compute,                                                                                                \
     NULL,                                                                                                   \
     get_one,                                                                                                \
     get_end}

/* The level of this CPU and its system; -1 where it has no AVX2. */
static int cpu_level(void) {
    uint32_t a, b, c, d, low, high;
    const uint32_t needed = 1u << 12 | 1u << 27 | 1u << 28; /* FMA, OSXSAVE, AVX */
    const uint32_t wide =
        1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | (uint32_t)1 << 31; /* F, DQ, CD, BW, VL */
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(0), "c"(0));
    if (a < 7)
        return -1;
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(1), "c"(0));
    if ((c & needed) != needed)
        return -1;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    if ((low & 6) != 6 || !(b & 1u << 5))
        return -1;
    return (low & 0xe6) == 0xe6 && (b & wide) == wide;
}

/* Registers `count` operations with the domain called `name`: none on a CPU without AVX2, where the functions
   of the model serve. */
static OrtStatus *register_all(OrtSessionOptions *options, const OrtApiBase *base, const char *name,
                               const operation *operations, size_t count) {
    OrtCustomOpDomain *domain = NULL;
    api = base->get_api(TABLE_VERSION);
    if (!api) {
        api = base->get_api(FIRST_VERSION);
        return failure(FAIL, "the library of graphwright's operators needs ONNX Runtime 1.17 or later");
    }
    level = cpu_level();
    if (level < 0)
        return NULL;
    OrtStatus *status =
        ((OrtStatus * (*)(const char *, OrtCustomOpDomain **)) api[CREATE_CUSTOM_OP_DOMAIN])(name, &domain);
    for (size_t k = 0; !status && k < count; ++k)
        status = ((OrtStatus * (*)(OrtCustomOpDomain *, const OrtCustomOp *))
                      api[CUSTOM_OP_DOMAIN_ADD])(domain, &operations[k].base);
    if (!status)
        status = ((OrtStatus * (*)(OrtSessionOptions *, OrtCustomOpDomain *))
                      api[ADD_CUSTOM_OP_DOMAIN])(options, domain);
    return status;
}
