/* The functions that ONNX Runtime calls: they register the operators, create their kernels, and run them. */
#include "operators.h"
#include "threads.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOMAIN "graphwright.fused" /* the same as in graphwright.export.onnx.functions */
#define SPINNING "session.intra_op.allow_spinning"

enum { MESSAGE = 512, RANGE = 128 };

static table api;

/* A kernel: one for each node of a session. */
typedef struct {
    operation *op;
    thread_pool threads;
} node_kernel;

/* ---- errors ---- */

static OrtStatus *failure(int code, const char *message) {
    return ((OrtStatus * (*)(int, const char *)) api[CREATE_STATUS])(code, message);
}

static OrtStatus *described(const operation *op, const gw_error *error) {
    char message[MESSAGE], range[RANGE];
    gw_fault_range(error, range, sizeof range);
    if (error->kind == GW_E_KERNEL)
        snprintf(message, sizeof message, "%s: a kernel rejects its operands: %s%s (%s)", op->name,
                 gw_kernel_fault(error->b), range, error->text);
    else
        snprintf(message, sizeof message, "%s: %s", op->name, error->text);
    return failure(FAIL, message);
}

/* Appends to `text`, as far as it has room for it. */
__attribute__((format(printf, 2, 3))) static void append(char text[MESSAGE], const char *format, ...) {
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, MESSAGE - length, format, arguments);
    va_end(arguments);
}

/* The status for inputs with sizes that the program does not accept; `dims` are all their sizes. */
static OrtStatus *sizes_rejected(const operation *op, const int64_t *dims, const gw_error *error) {
    char message[MESSAGE] = "";
    const gw_program *p = op->linked.program;
    append(message, "%s: the sizes of its inputs do not fit together: ", op->name);
    if (error->kind == GW_E_CHECK)
        append(message, "%lld and %lld", (long long)error->b, (long long)error->c);
    else
        append(message, "%s", error->text);
    for (int64_t i = 0; i < p->input_count; dims += p->inputs[i++].dims.count) {
        append(message, i ? ", [" : "; its inputs are [");
        for (int64_t axis = 0; axis < p->inputs[i].dims.count; axis++)
            append(message, axis ? ", %lld" : "%lld", (long long)dims[axis]);
        append(message, "]");
    }
    return failure(INVALID_ARGUMENT, message);
}

/* ---- operands ---- */

/* The address of the elements; never NULL, which kernels take for an absent operand. */
static void *elements(call *c, const OrtValue *value) {
    static _Alignas(64) char none[64];
    void *data = NULL;
    if (!c->status)
        c->status = ((OrtStatus * (*)(const OrtValue *, void **)) api[GET_TENSOR_MUTABLE_DATA])(value, &data);
    return data ? data : none;
}

/* The elements of an input of the node; writes its sizes to `dims`. Fails if its rank is not `rank`. */
static void *input(call *c, const operation *op, size_t index, size_t rank, int64_t *dims) {
    const OrtValue *value = NULL;
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t found = 0;
    c->status = ((OrtStatus * (*)(const OrtKernelContext *, size_t, const OrtValue **))
                     api[GET_INPUT])(c->context, index, &value);
    if (!c->status)
        c->status = ((OrtStatus * (*)(const OrtValue *, OrtTensorTypeAndShapeInfo **))
                         api[GET_TENSOR_TYPE_AND_SHAPE])(value, &info);
    if (!c->status)
        c->status = ((OrtStatus * (*)(const OrtTensorTypeAndShapeInfo *, size_t *))
                         api[GET_DIMENSIONS_COUNT])(info, &found);
    if (!c->status && found != rank)
        c->status = described(op, &(gw_error){.text = "an input has another rank than in the model"});
    if (!c->status && rank > 0)
        c->status = ((OrtStatus * (*)(const OrtTensorTypeAndShapeInfo *, int64_t *, size_t))
                         api[GET_DIMENSIONS])(info, dims, rank);
    if (info)
        ((void (*)(OrtTensorTypeAndShapeInfo *))api[RELEASE_TENSOR_TYPE_AND_SHAPE_INFO])(info);
    return elements(c, value);
}

/* The memory that ONNX Runtime allocates for an output. */
static void *output(call *c, size_t index, gw_list dims, const int64_t *registers) {
    OrtValue *value = NULL;
    int64_t sizes[GW_MAX_RANK];
    for (int64_t axis = 0; axis < dims.count; axis++)
        sizes[axis] = registers[dims.at[axis]];
    c->status = ((OrtStatus * (*)(OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **))
                     api[GET_OUTPUT])(c->context, index, sizes, (size_t)dims.count, &value);
    return elements(c, value);
}

/* ---- a run ---- */

static bool execute(node_kernel *k, call *c, const gw_plan *plan, void *const *inputs, gw_error *error) {
    const gw_program *p = k->op->linked.program;
    void *outputs[MOST_VALUES];
    for (int64_t i = 0; i < p->output_count && !c->status; i++)
        outputs[i] = output(c, (size_t)i, p->outputs[i].dims, plan->registers);
    spreading s = {c, &k->threads, plan->threads};
    gw_call run = {
        .plan = plan, .inputs = inputs, .outputs = outputs, .spread = threads_spread, .host_data = &s};
    return !c->status && gw_linked_run(&k->op->linked, &run, error);
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
    node_kernel *k = kernel;
    const gw_program *p = k->op->linked.program;
    call c = {api, context, NULL};
    gw_error error = {0};
    void *inputs[MOST_VALUES];
    int64_t dims[MOST_DIMS], *next = dims;
    for (int64_t i = 0; i < p->input_count && !c.status; i++) {
        inputs[i] = input(&c, k->op, k->op->node_inputs[i], (size_t)p->inputs[i].dims.count, next);
        next += p->inputs[i].dims.count;
    }
    int threads = threads_to_plan(&k->threads);
    gw_plan *plan = c.status ? NULL : gw_linked_plan(&k->op->linked, dims, threads, &error);
    bool done = plan && !c.status && execute(k, &c, plan, inputs, &error);
    if (plan)
        gw_plan_release(plan);
    if (done || c.status)
        return c.status;
    bool sizes = error.kind == GW_E_FEED || error.kind == GW_E_CHECK || error.kind == GW_E_PLAN;
    return sizes ? sizes_rejected(k->op, dims, &error) : described(k->op, &error);
}

/* ---- kernels ---- */

static OrtStatus *create(const OrtCustomOp *op, table own, const OrtKernelInfo *info, void **kernel) {
    (void)own, (void)info;
    gw_error error = {0};
    node_kernel *made = calloc(1, sizeof *made);
    if (!made)
        return failure(FAIL, "not enough memory for a kernel");
    made->op = (operation *)(uintptr_t)op;
    *kernel = made;
    if (operators_load(made->op, &error))
        return NULL;
    free(made);
    return described((const operation *)op, &error);
}

static void destroy(void *kernel) { free(kernel); }

/* ---- properties of an operator ---- */

static const operation *of(const OrtCustomOp *op) { return (const operation *)op; }
static const char *get_name(const OrtCustomOp *op) { return of(op)->name; }
static const char *get_provider(const OrtCustomOp *op) {
    (void)op;
    return NULL; /* the CPU */
}
static int get_input_type(const OrtCustomOp *op, size_t index) { return of(op)->input_types[index]; }
static int get_output_type(const OrtCustomOp *op, size_t index) { return of(op)->output_types[index]; }
static size_t get_input_count(const OrtCustomOp *op) { return of(op)->input_count; }
static size_t get_output_count(const OrtCustomOp *op) { return of(op)->output_count; }
static int get_required(const OrtCustomOp *op, size_t index) {
    (void)op, (void)index;
    return 0; /* an input or output is required; it is in default memory */
}
static int get_one(const OrtCustomOp *op) {
    (void)op;
    return 1;
}
static int get_last_version(const OrtCustomOp *op) {
    (void)op;
    return INT32_MAX;
}

static const OrtCustomOp CALLBACKS = {
    .version = TABLE_VERSION,
    .get_name = get_name,
    .get_execution_provider_type = get_provider,
    .get_input_type = get_input_type,
    .get_input_type_count = get_input_count,
    .get_output_type = get_output_type,
    .get_output_type_count = get_output_count,
    .kernel_destroy = destroy,
    .get_input_characteristic = get_required,
    .get_output_characteristic = get_required,
    .get_input_memory_type = get_required,
    .get_variadic_input_min_arity = get_one,
    .get_variadic_input_homogeneity = get_one,
    .get_variadic_output_min_arity = get_one,
    .get_variadic_output_homogeneity = get_one,
    .create_kernel_v2 = create,
    .kernel_compute_v2 = compute,
    .get_start_version = get_one,
    .get_end_version = get_last_version,
};

/* ---- registration ---- */

__attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *options,
                                                                    const OrtApiBase *base);

/* Turns off spinning between runs, for a session that has only nodes of this library, unless the user has set
   the option. A thread that spins uses up its time slice when other processes need its core, and then starts
   the next run late. */
static OrtStatus *let_threads_sleep(OrtSessionOptions *options) {
    int said = 0;
    OrtStatus *status = ((OrtStatus * (*)(const OrtSessionOptions *, const char *, int *))
                             api[HAS_SESSION_CONFIG_ENTRY])(options, SPINNING, &said);
    if (status || said)
        return status;
    return ((OrtStatus * (*)(OrtSessionOptions *, const char *, const char *))
                api[ADD_SESSION_CONFIG_ENTRY])(options, SPINNING, "0");
}

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    OrtCustomOpDomain *domain = NULL;
    operation *operations;
    size_t count;
    gw_error error = {0};
    api = base->get_api(TABLE_VERSION);
    if (!api) {
        api = base->get_api(FIRST_VERSION);
        return failure(FAIL, "the library of graphwright's operators needs ONNX Runtime 1.20 or later");
    }
    if (!operators_open(&operations, &count, &error))
        return failure(FAIL, error.text);
    if (count == 0)
        return NULL; /* ONNX Runtime runs the function bodies in the model instead */
    OrtStatus *status =
        ((OrtStatus * (*)(const char *, OrtCustomOpDomain **)) api[CREATE_CUSTOM_OP_DOMAIN])(DOMAIN, &domain);
    for (size_t k = 0; !status && k < count; ++k) {
        if (operations[k].base.version == 0)
            operations[k].base = CALLBACKS;
        status = ((OrtStatus * (*)(OrtCustomOpDomain *, const OrtCustomOp *))
                      api[CUSTOM_OP_DOMAIN_ADD])(domain, &operations[k].base);
    }
    if (!status)
        status = ((OrtStatus * (*)(OrtSessionOptions *, OrtCustomOpDomain *))
                      api[ADD_CUSTOM_OP_DOMAIN])(options, domain);
    if (!status && operators_are_all())
        status = let_threads_sleep(options);
    return status;
}
