/* The C interface of graphwright: runs packages (.om) that graphwright compiled, without Python.

       gw_model *model;
       gw_request *request;
       if (gw_open("model.om", NULL, &model) || gw_request_create(model, &request))
           fail(gw_error_text());
       gw_request_set_input(request, 0, pixels, sizeof pixels, shape, 4);
       if (gw_request_run(request))
           fail(gw_error_text());
       const float *scores = gw_request_output_data(request, 0);

   A model can run from any thread, and several requests can run at the same time; a request is used by one
   thread at a time. Functions that can fail return a status and set an error text, which says what is wrong,
   where, and what to do. Returned pointers belong to the model or request that returned them, unless stated
   otherwise.

   Programs built with one version work with later versions of the same GW_API_MAJOR: functions, statuses and
   element types are only added. All structs are opaque. */
#ifndef GRAPHWRIGHT_H
#define GRAPHWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_API_MAJOR 1
#define GW_API_MINOR 1
#define GW_API __attribute__((visibility("default")))

/* ---- versions ---- */

/* The version of the loaded library's interface: GW_API_MAJOR * 1000 + GW_API_MINOR. */
GW_API uint32_t gw_api_version(void);
/* The version of graphwright, such as "0.1.0". */
GW_API const char *gw_version(void);

/* ---- errors ---- */

typedef enum gw_status {
    GW_STATUS_OK = 0,
    GW_STATUS_ARGUMENT = 1,    /* an argument is invalid: an index, a pointer, a size, a busy request */
    GW_STATUS_FILE = 2,        /* the file cannot be read */
    GW_STATUS_PACKAGE = 3,     /* the file is not a package, damaged, or of another version */
    GW_STATUS_UNTRUSTED = 4,   /* no trusted key signed the package, so its kernels must not run */
    GW_STATUS_UNSUPPORTED = 5, /* the package needs Python, another CPU, or a compiler */
    GW_STATUS_SHAPE = 6,       /* inputs of these shapes do not fit the model */
    GW_STATUS_RUN = 7,         /* a kernel rejected its data */
    GW_STATUS_MEMORY = 8       /* not enough memory */
} gw_status;

/* The error text of the last failed call on this thread: one or more lines. Valid until the next failure on
   this thread. */
GW_API const char *gw_error_text(void);
/* The name of a status, such as "untrusted". */
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
    GW_DTYPE_I4 = 15, /* types of fewer than 8 bits use one byte per element */
    GW_DTYPE_U4 = 16,
    GW_DTYPE_I2 = 17,
    GW_DTYPE_U2 = 18,
    GW_DTYPE_F8E4M3FN = 19,
    GW_DTYPE_F8E4M3FNUZ = 20,
    GW_DTYPE_F8E5M2 = 21,
    GW_DTYPE_F8E5M2FNUZ = 22,
    GW_DTYPE_F8E8M0 = 23,
    GW_DTYPE_F4E2M1 = 24,
    GW_DTYPE_F6E2M3 = 25,
    GW_DTYPE_F6E3M2 = 26
} gw_dtype;

/* The name of an element type, such as "f32"; NULL for a type that this version does not have. */
GW_API const char *gw_dtype_name(gw_dtype dtype);
/* The size of one element in bytes; 0 for a type that this version does not have. */
GW_API size_t gw_dtype_bytes(gw_dtype dtype);

/* ---- opening ---- */

typedef struct gw_options gw_options;
typedef struct gw_model gw_model;

/* Options of opening a package. NULL instead of options means the defaults. */
GW_API gw_status gw_options_create(gw_options **options);
GW_API void gw_options_destroy(gw_options *options);
/* Runs the kernels of a package whoever built it. Kernels are native code: trust them like a program. By
   default, kernels run only if the package was signed with this user's key
   (~/.config/graphwright/signing.key), or with a key that is added here. */
GW_API gw_status gw_options_set_trust(gw_options *options, int trust);
/* Adds a trusted key of 32 bytes or more: the signing.key of the user who built the package. */
GW_API gw_status gw_options_add_key(gw_options *options, const void *key, size_t size);
GW_API gw_status gw_options_add_key_file(gw_options *options, const char *path);

/* Opens a package and returns the model of its first entry. The file or bytes are not needed after this
 * returns. */
GW_API gw_status gw_open(const char *path, const gw_options *options, gw_model **model);
GW_API gw_status gw_open_memory(const void *data, size_t size, const gw_options *options, gw_model **model);
/* Opens the package that this library contains, and returns the model of its first entry. Only libraries that
   graph-autofusion --standalone wrote contain one; other libraries return GW_STATUS_PACKAGE. Its kernels run
   without a key: they are part of the library. Since version 1.1. */
GW_API gw_status gw_open_embedded(const gw_options *options, gw_model **model);
/* Closes a package with the models of all its entries. All their requests must have been destroyed. */
GW_API void gw_close(gw_model *model);

/* The entries of a package, such as "main", or "prefill" and "decode". They share weights and states. */
GW_API size_t gw_entry_count(const gw_model *model);
GW_API const char *gw_entry_name(const gw_model *model, size_t index);
/* The model of an entry; gw_close closes it with the package. */
GW_API gw_status gw_entry(gw_model *model, const char *name, gw_model **entry);

/* Sets the number of threads of a run of this model; 0, the default, uses that of the process. */
GW_API gw_status gw_model_set_threads(gw_model *model, int threads);
/* Sets the process's default number of threads of a run; 0, the initial value, is one for each core that it
 * may use. */
GW_API gw_status gw_set_threads(int threads);

/* ---- inputs and outputs ---- */

typedef struct gw_tensor_info gw_tensor_info;

GW_API size_t gw_input_count(const gw_model *model);
GW_API size_t gw_output_count(const gw_model *model);
/* NULL for an index out of range. */
GW_API const gw_tensor_info *gw_input(const gw_model *model, size_t index);
GW_API const gw_tensor_info *gw_output(const gw_model *model, size_t index);
GW_API const char *gw_tensor_name(const gw_tensor_info *info);
GW_API gw_dtype gw_tensor_dtype(const gw_tensor_info *info);
/* The rank; -1 if it is known only in a run. */
GW_API int gw_tensor_rank(const gw_tensor_info *info);
/* The size of an axis; -1 if it is dynamic. */
GW_API int64_t gw_tensor_size(const gw_tensor_info *info, int axis);
/* The symbol of a dynamic size, such as "N" or "2*N": sizes with the same symbol are equal. NULL if the size
   is a number. */
GW_API const char *gw_tensor_symbol(const gw_tensor_info *info, int axis);

/* ---- states: arrays that a model keeps between runs ---- */

GW_API size_t gw_state_count(const gw_model *model);
GW_API const gw_tensor_info *gw_state(const gw_model *model, size_t index);
/* Resets all states of the package to their initial values. */
GW_API gw_status gw_states_reset(gw_model *model);
/* Sets a state to a copy of `data`, which has `bytes` bytes and the sizes `shape` (NULL if its shape is
 * static). */
GW_API gw_status gw_state_set(gw_model *model, size_t index, const void *data, size_t bytes,
                              const int64_t *shape, int rank);
/* Copies a state to `data`, whose size `bytes` must be that of the state. */
GW_API gw_status gw_state_get(gw_model *model, size_t index, void *data, size_t bytes);
/* Writes the current sizes of a state to `shape`; `rank` must be its rank. */
GW_API gw_status gw_state_shape(gw_model *model, size_t index, int64_t *shape, int rank);

/* ---- runs ---- */

typedef struct gw_request gw_request;

/* A request runs a model. Its inputs and outputs stay set between runs. */
GW_API gw_status gw_request_create(gw_model *model, gw_request **request);
/* Waits for a run in progress before it destroys the request. */
GW_API void gw_request_destroy(gw_request *request);
/* Sets an input to `data`: row-major, `bytes` bytes, with the sizes `shape` (NULL if its shape is static).
   Runs only read it; it must stay valid until they have ended. */
GW_API gw_status gw_request_set_input(gw_request *request, size_t index, const void *data, size_t bytes,
                                      const int64_t *shape, int rank);
/* Makes runs write an output to `data`, which has room for `bytes` bytes and must not overlap an input or
   another output. With NULL, the default, runs write to memory of the request, which the next run overwrites.
 */
GW_API gw_status gw_request_set_output(gw_request *request, size_t index, void *data, size_t bytes);
/* Computes the sizes of the outputs from those of the inputs, and plans the memory of a run. A run does this
   itself if sizes have changed. If sizes are data-dependent, programs are planned one by one during the run.
 */
GW_API gw_status gw_request_plan(gw_request *request);
GW_API gw_status gw_request_run(gw_request *request);

/* Called on a thread of the library when a run has ended; `text` is the error text, NULL if the run
   succeeded. The callback may start the request again, but must not destroy it. */
typedef void (*gw_callback)(gw_request *request, gw_status status, const char *text, void *user);
/* Starts a run on another thread. The callback may be NULL. Until the run has ended, the request is busy, and
   all calls with it except gw_request_wait fail. */
GW_API gw_status gw_request_start(gw_request *request, gw_callback callback, void *user);
/* Waits until all runs and callbacks of the request have ended; returns the status of the last started run.
   In the request's own callback it fails, because the callback would wait for itself. */
GW_API gw_status gw_request_wait(gw_request *request);

/* The rank of an output (-1 while unknown), a size, and its bytes. They are known after planning, or after
   the run if they are data-dependent. */
GW_API int gw_request_output_rank(const gw_request *request, size_t index);
GW_API int64_t gw_request_output_size(const gw_request *request, size_t index, int axis);
GW_API size_t gw_request_output_bytes(const gw_request *request, size_t index);
/* The elements that the last run wrote; NULL before the first run. */
GW_API const void *gw_request_output_data(const gw_request *request, size_t index);

/* Frees memory that no run uses: cached plans and arenas. */
GW_API void gw_trim(gw_model *model);

#ifdef __cplusplus
}
#endif

#endif
