/* Plans: the sizes, offsets and arguments that a program needs for one set of input shapes, kept in an LRU
 * cache. */
#pragma once
#include "offsets.h"
#include "program.h"

enum { GW_MAX_THREADS = 256 };
enum { GW_MOST_CHUNKS = 4 * GW_MAX_THREADS };
/* The maximum number of chunks of a launch on that many threads. */
int gw_most_chunks(int threads);
enum { GW_COPY_CHUNK = 4096 }; /* minimum bytes of a copy per thread */
enum { GW_OUT_OF_BOUNDS = 3 }; /* the code of a launch that would access memory outside its operands */

/* The values of a task in a plan. */
typedef struct {
    int64_t grid;                    /* of a COPY: its chunks */
    int64_t bytes;                   /* of a COPY; of the condition of an IF */
    int64_t limit;                   /* maximum iterations of a LOOP; rows of a COPY to rows */
    int64_t scratch, scratch_stride; /* offset in the arena, -1 if none; bytes between the threads */
    int32_t chunks;                  /* number of parts into which the grid is split */
    bool heavy;                      /* worth waking a thread for */
    bool light;                      /* of a LOOP: no task of its body is heavy */
    bool out_of_bounds;              /* of a launch in a branch or loop: it fails when it runs */
} gw_step;

typedef struct gw_plan {
    struct gw_plan *next; /* in the cache, by last use */
    int references;       /* under the global lock; the cache's own included */
    int threads;
    int64_t serial;                       /* unique in the process */
    int64_t *dims;                        /* the key */
    int64_t *registers, *sizes, *offsets; /* of instructions; of buffers; those not planned have offset -1 */
    int64_t *operand_offsets;             /* from the operand's base; of a function its address */
    int64_t *args;
    int64_t *input_bytes, *output_bytes;
    gw_step *steps;
    int64_t arena_bytes;
    int64_t bytes; /* of the plan itself, with its tables */
    bool parallel; /* some task is heavy, so threads may help */
    bool shared;   /* enough work is in heavy tasks to wake a thread of the host */
    bool brief;    /* a run takes a few microseconds and calls no host functions */
} gw_plan;

/* The offset of an operand in its buffer; 0 in an empty buffer, which is never accessed. */
static inline int64_t gw_operand_begin(const gw_plan *plan, const gw_operand *o) {
    return plan->sizes[o->buffer] == 0 ? 0 : plan->registers[o->offset];
}

/* What a plan depends on besides the program and the shapes. */
typedef struct {
    int64_t weight_bytes;
    const int64_t *kernels; /* addresses */
    const int64_t *extents; /* addresses of the kernels' extent functions; 0: it has none */
} gw_links;

/* A new plan for these dims (program->input_dim_count of them). It must be released. NULL on error. */
gw_plan *gw_plan_make(const gw_program *program, const gw_links *links, const int64_t *dims, int threads,
                      gw_error *error);

typedef struct {
    gw_plan *first; /* most recent first */
    int count, bound;
    int64_t hits, misses, evictions;
} gw_plan_cache;

/* As gw_plan_make, but from the cache if it has such a plan. */
gw_plan *gw_plan_take(gw_plan_cache *cache, const gw_program *program, const gw_links *links,
                      const int64_t *dims, int threads, gw_error *error);
void gw_plan_release(gw_plan *plan);
/* Empties the cache; a run keeps its own plan until it ends. */
void gw_plan_cache_clear(gw_plan_cache *cache);

/* Whether two ranges of bytes have one in common. */
bool gw_overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes);
/* Whether an output overlaps no input and no output before it. */
bool gw_output_is_apart(const gw_program *program, const gw_plan *plan, int64_t output, void *const *inputs,
                        void *const *outputs);
