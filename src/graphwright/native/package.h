/* A package that is open: its entries, with what runs them. */
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
    int rank;                   /* -1: known in a run alone */
    const int64_t *sizes;       /* -1: open */
    const char *const *symbols; /* of open sizes; else NULL */
};

typedef struct {
    size_t count;
    gw_tensor_info *at;
} infos;

typedef enum { PROGRAM, DISPATCH, STEPS } executable_kind;
typedef struct host_program host_program;

/* As executable/nodes.py has them, but for nodes that need Python. */
typedef struct executable {
    executable_kind kind;
    infos inputs, outputs;
    bool *is_state;     /* of each input: a run updates it */
    const json *guards; /* what it assumes of sizes, as texts */
    /* Of a dispatch: the first case that takes the shapes of a run, and no guard of which they break. */
    struct executable *cases;
    size_t case_count;
    bool compiles;       /* what takes others: in Python */
    host_program *steps; /* of calls of programs, and sizes that these bind */
    /* Of a program. */
    gw_linked linked;
    block tasks; /* as the package has them: errors name what is in them */
} executable;

/* What a model keeps from run to run. */
typedef struct {
    gw_tensor_info info;
    const tensor *start; /* or NULL: zeros */
    block content;       /* data NULL: as at first */
    int64_t *shape;      /* info.rank sizes */
} state;

typedef struct package package;

struct gw_model {
    package *owner;
    const char *name;
    infos inputs, outputs; /* inputs without the states */
    executable root;
    size_t *feeds;  /* of each input of `inputs`, its number among those of the executable */
    state **states; /* of each input of the executable: its state, or NULL */
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
    const json *members; /* their sizes and hashes, by name */
    weights weights;
    block packed;             /* weights for `isa`, where they are stored for another one */
    const char *task_weights; /* that tasks read */
    size_t task_weight_bytes;
    void *kernels; /* the library for `isa` */
    const char *isa;
    object *objects;
    size_t object_count;
    gw_arena_pool arenas;
    gw_model *models;
    size_t model_count;
    state *states;
    size_t state_count;
    pthread_mutex_t states_lock; /* held by runs that read and update states */
    pool memory;                 /* of all that is decoded */
};

/* Opens what `source` holds, which is open and which it takes over. Close the package whether it could be
   opened or not. */
gw_status package_open(package *p, const archive *source, const gw_options *options);
void package_close(package *p);
