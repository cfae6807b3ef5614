/* An open package: its entries and the executables that run them. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "archive.h"
#include "json.h"
#include "linked.h"
#include "weights.h"

struct gw_tensor_info {
    const char *name;
    gw_dtype dtype;
    int rank;                   /* -1: known only in a run */
    const int64_t *sizes;       /* -1: a dynamic dimension */
    const char *const *symbols; /* names of the dynamic dimensions; NULL for the others */
};

typedef struct {
    size_t count;
    gw_tensor_info *at;
} infos;

typedef enum { PROGRAM, DISPATCH, STEPS } executable_kind;
typedef struct host_program host_program;

/* The executables of executable/nodes.py, without those that need Python. */
typedef struct executable {
    executable_kind kind;
    infos inputs, outputs;
    bool *is_state;     /* of each input: whether a run updates it */
    const json *guards; /* what it assumes about sizes, as text */
    /* Of a dispatch: a run uses the first case that accepts its shapes and whose guards hold. */
    struct executable *cases;
    size_t case_count;
    bool compiles;       /* whether Python would compile a program for other shapes */
    host_program *steps; /* calls of programs, and the sizes that they determine */
    /* Of a program. */
    gw_linked linked;
    block tasks; /* in the encoding of the package: errors take names from them */
} executable;

/* A tensor that a model keeps from run to run. */
typedef struct {
    gw_tensor_info info;
    const tensor *start; /* the initial value; NULL: zeros */
    block content;       /* data is NULL while it has its initial value */
    int64_t *shape;      /* info.rank sizes */
} state;

typedef struct package package;

struct gw_model {
    package *owner;
    const char *name;
    infos inputs, outputs; /* inputs without the states */
    executable root;
    size_t *feeds;  /* of each of `inputs`: its index among the inputs of the executable */
    state **states; /* of each input of the executable: its state, or NULL if it has none */
    state **own_states;
    size_t own_state_count;
    atomic_int threads;
};

typedef struct {
    const member *origin;
    void *handle;
} object;

struct package {
    const char *where;
    archive source;
    block manifest_text;
    json_document manifest;
    const json *members; /* sizes and hashes, by name */
    weights weights;
    block packed;             /* the weights for `isa`, if they are stored for another ISA */
    const char *task_weights; /* the weights that tasks read */
    size_t task_weight_bytes;
    void *kernels; /* the library of kernels for `isa` */
    const char *isa;
    object *objects;
    size_t object_count;
    gw_arena_pool arenas;
    gw_model *models;
    size_t model_count;
    state *states;
    size_t state_count;
    pthread_mutex_t states_lock; /* held by runs of models with states */
    pool memory;                 /* of everything that is decoded */
};

/* Opens the package in `source`, an open archive, and takes ownership of it. The caller closes the package
   also when this fails. */
gw_status package_open(package *p, const archive *source, const gw_options *options);
void package_close(package *p);
