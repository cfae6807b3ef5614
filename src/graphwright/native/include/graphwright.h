/* graphwright in C: runs the packages (.om) that graphwright compiles. No Python is in it.

       gw_model *model;
       gw_request *request;
       if (gw_open("model.om", NULL, &model) || gw_request_create(model, &request))
           fail(gw_error_text());
       gw_request_set_input(request, 0, pixels, sizeof pixels, shape, 4);
       if (gw_request_run(request))
           fail(gw_error_text());
       const float *scores = gw_request_output_data(request, 0);

   A model runs from any thread, in as many requests at a time as there are threads; a request is used by one
   thread at a time. Functions that can fail return a status, and leave a text that says what, where and what
   to do. Pointers that they return belong to the model or request that gave them, unless another is said.

   Programs that were built with one version run with later ones of the same GW_API_MAJOR: functions are only
   added, and so are statuses and element types. No struct is laid open. */
#ifndef GRAPHWRIGHT_H
#define GRAPHWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_API_MAJOR 1
#define GW_API_MINOR 0
#define GW_API __attribute__((visibility("default")))

/* ---- versions ---- */

/* GW_API_MAJOR and GW_API_MINOR of the library that runs, as major * 1000 + minor. */
GW_API uint32_t gw_api_version(void);
/* The version of graphwright, as "0.1.0". */
GW_API const char *gw_version(void);

/* ---- errors ---- */

typedef enum gw_status {
    GW_STATUS_OK = 0,
    GW_STATUS_ARGUMENT = 1,    /* the call is wrong: an index, a pointer, bytes, a request that is busy */
    GW_STATUS_FILE = 2,        /* the file cannot be read */
    GW_STATUS_PACKAGE = 3,     /* it is no package, damaged, or of another version */
    GW_STATUS_UNTRUSTED = 4,   /* nobody who is trusted signed it, so its kernels are not run */
    GW_STATUS_UNSUPPORTED = 5, /* it needs what this interface has not: Python, this CPU, a compiler */
    GW_STATUS_SHAPE = 6,       /* inputs of these sizes do not fit the model */
    GW_STATUS_RUN = 7,         /* a kernel refused its data */
    GW_STATUS_MEMORY = 8       /* not enough memory */
} gw_status;

/* The text of the last call on this thread that failed: one line or several. Valid until the next failure on
   this thread. */
GW_API const char *gw_error_text(void);
/* The name of a status, as "untrusted". */
GW_API const char *gw_status_name(gw_status status);

/* ---- element types ---- */

typedef enum gw_dtype {
    GW_DTYPE_BOOL = 0, /* a byte, 0 or 1 */
    GW_DTYPE_I8 = 1,
    GW_DTYPE_I16 = 2,
    GW_DTYPE_I32 = 3,
    GW_DTYPE_I64 = 4,
    GW_DTYPE_U8 = 5,
    GW_DTYPE_U16 = 6,
    GW_DTYPE_U32 = 7,
    GW_DTYPE_U64 = 8,
    GW_DTYPE_F16 = 9,
    GW_DTYPE_BF16 = 10,
    GW_DTYPE_F32 = 11,
    GW_DTYPE_F64 = 12,
    GW_DTYPE_C64 = 13, /* complex: two f32 */
    GW_DTYPE_C128 = 14,
    GW_DTYPE_I4 = 15, /* types below 8 bits take a byte for each element */
    GW_DTYPE_U4 = 16,
    GW_DTYPE_I2 = 17,
    GW_DTYPE_U2 = 18,
    GW_DTYPE_F8E4M3FN = 19,
    GW_DTYPE_F8E4M3FNUZ = 20,
    GW_DTYPE_F8E5M2 = 21,
    GW_DTYPE_F8E5M2FNUZ = 22,
    GW_DTYPE_F8E8M0 = 23,
    GW_DTYPE_F4E2M1 = 24
} gw_dtype;

/* "f32"; NULL for a type that this version does not have. */
GW_API const char *gw_dtype_name(gw_dtype dtype);
/* Bytes of one element; 0 for a type that this version does not have. */
GW_API size_t gw_dtype_bytes(gw_dtype dtype);

/* ---- opening ---- */

typedef struct gw_options gw_options;
typedef struct gw_model gw_model;

/* How packages are opened; NULL in place of options is all as it is at first. */
GW_API gw_status gw_options_create(gw_options **options);
GW_API void gw_options_destroy(gw_options *options);
/* Run the kernels of a package whoever built it. They are native code: trust them as you trust a program. At
   first those run that this user's key signed (~/.config/graphwright/signing.key), or a key given here. */
GW_API gw_status gw_options_set_trust(gw_options *options, int trust);
/* Run what this key of 32 bytes or more signed: the signing.key of who built the package. */
GW_API gw_status gw_options_add_key(gw_options *options, const void *key, size_t size);
GW_API gw_status gw_options_add_key_file(gw_options *options, const char *path);

/* Open a package: the model of its first entry. The file, or the bytes, are read before this returns, and
   not needed any more. */
GW_API gw_status gw_open(const char *path, const gw_options *options, gw_model **model);
GW_API gw_status gw_open_memory(const void *data, size_t size, const gw_options *options, gw_model **model);
/* Close a package: the models of all its entries. None of their requests may be left. */
GW_API void gw_close(gw_model *model);

/* The entries of a package, as "main", or "prefill" and "decode"; they share weights and states. */
GW_API size_t gw_entry_count(const gw_model *model);
GW_API const char *gw_entry_name(const gw_model *model, size_t index);
/* The model of an entry, which gw_close closes with the others. */
GW_API gw_status gw_entry(gw_model *model, const char *name, gw_model **entry);

/* Threads of a run of this model; 0, as at first: those of the process. */
GW_API gw_status gw_model_set_threads(gw_model *model, int threads);
/* Threads of runs that do not say how many; at first the cores that the process may use. */
GW_API gw_status gw_set_threads(int threads);

/* ---- inputs and outputs ---- */

typedef struct gw_tensor_info gw_tensor_info;

GW_API size_t gw_input_count(const gw_model *model);
GW_API size_t gw_output_count(const gw_model *model);
/* NULL for an index that there is not. */
GW_API const gw_tensor_info *gw_input(const gw_model *model, size_t index);
GW_API const gw_tensor_info *gw_output(const gw_model *model, size_t index);
GW_API const char *gw_tensor_name(const gw_tensor_info *info);
GW_API gw_dtype gw_tensor_dtype(const gw_tensor_info *info);
/* -1 where it is known in a run alone. */
GW_API int gw_tensor_rank(const gw_tensor_info *info);
/* The size along an axis; -1 where it is open. */
GW_API int64_t gw_tensor_size(const gw_tensor_info *info, int axis);
/* What an open size is called, as "N" or "2*N": those of one name are equal. NULL where it is a number. */
GW_API const char *gw_tensor_symbol(const gw_tensor_info *info, int axis);

/* ---- states: what a model keeps from run to run ---- */

GW_API size_t gw_state_count(const gw_model *model);
GW_API const gw_tensor_info *gw_state(const gw_model *model, size_t index);
/* Let all states of the package be what they were at first. */
GW_API gw_status gw_states_reset(gw_model *model);
/* Let a state be a copy of `data`, of `bytes` bytes and the sizes `shape` (NULL where the model knows all).
 */
GW_API gw_status gw_state_set(gw_model *model, size_t index, const void *data, size_t bytes,
                              const int64_t *shape, int rank);
/* Copy a state to `data`, which has exactly its bytes. */
GW_API gw_status gw_state_get(gw_model *model, size_t index, void *data, size_t bytes);
/* The sizes of a state as it is now: `shape` has room for `rank` of them, which must be its rank. */
GW_API gw_status gw_state_shape(gw_model *model, size_t index, int64_t *shape, int rank);

/* ---- runs ---- */

typedef struct gw_request gw_request;

/* A request runs a model: its inputs and outputs stay set from run to run. */
GW_API gw_status gw_request_create(gw_model *model, gw_request **request);
/* Waits for a run that was started. */
GW_API void gw_request_destroy(gw_request *request);
/* Let an input be `data`, row-major, of `bytes` bytes and the sizes `shape` (NULL where the model knows all).
   It is read in runs, never written, and must stay until they have ended. */
GW_API gw_status gw_request_set_input(gw_request *request, size_t index, const void *data, size_t bytes,
                                      const int64_t *shape, int rank);
/* Let runs write an output to `data`, which has room for `bytes` bytes and overlaps no input and no other
   output. NULL, as at first: to memory of the request, which the next run writes again. */
GW_API gw_status gw_request_set_output(gw_request *request, size_t index, void *data, size_t bytes);
/* Find the sizes of the outputs for those of the inputs, and plan the memory of a run. A run does so itself
   where sizes have changed. Where data decide sizes, programs are planned one by one in the run. */
GW_API gw_status gw_request_plan(gw_request *request);
GW_API gw_status gw_request_run(gw_request *request);

/* Called on a thread of the library's when a run has ended: `text` says what was wrong, NULL if nothing was.
   The request may be started again in it, and not destroyed. */
typedef void (*gw_callback)(gw_request *request, gw_status status, const char *text, void *user);
/* Run on another thread. The callback may be NULL. Until the run has ended, the request is busy: all calls
   but gw_request_wait are refused. */
GW_API gw_status gw_request_start(gw_request *request, gw_callback callback, void *user);
/* Wait until nothing of it runs any more, callbacks included: the status of the last run that was started.
   Not from its callback. */
GW_API gw_status gw_request_wait(gw_request *request);

/* Of an output: its rank (-1 while it is not known), a size, and its bytes. They are known from the plan on,
   or from the run on where data decide sizes. */
GW_API int gw_request_output_rank(const gw_request *request, size_t index);
GW_API int64_t gw_request_output_size(const gw_request *request, size_t index, int axis);
GW_API size_t gw_request_output_bytes(const gw_request *request, size_t index);
/* What the last run wrote; NULL before the first. */
GW_API const void *gw_request_output_data(const gw_request *request, size_t index);

/* Give memory that no run uses back to the system: plans of shapes, arenas. */
GW_API void gw_trim(gw_model *model);

#ifdef __cplusplus
}
#endif

#endif
