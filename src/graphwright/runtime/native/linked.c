#include "linked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"

enum { SYMBOL = 512 };
#define FOREIGN "plugin_" /* the prefix of the modules of plugins */

bool gw_linked_decode(gw_linked *linked, const void *words, size_t size, int plans, gw_arena_pool *arenas,
                      gw_error *error) {
    *linked = (gw_linked){.program = gw_program_decode(words, size, error)};
    if (!linked->program)
        return false;
    size_t kernels = (size_t)linked->program->kernel_count + 1;
    linked->kernels = calloc(kernels, sizeof *linked->kernels);
    linked->extents = calloc(kernels, sizeof *linked->extents);
    linked->links = (gw_links){0, linked->kernels, linked->extents};
    linked->plans.bound = plans;
    linked->contexts.bound = arenas->bound;
    linked->contexts.arenas = arenas;
    if (linked->kernels && linked->extents)
        return true;
    gw_linked_free(linked);
    return gw_fail_memory(error);
}

bool gw_linked_kernel(gw_linked *linked, int64_t number, void *object, const char *module, const char *symbol,
                      gw_error *error) {
    char extent[SYMBOL];
    bool is_foreign = strncmp(module, FOREIGN, strlen(FOREIGN)) == 0;
    if (snprintf(extent, sizeof extent, "%s_extent", symbol) >= (int)sizeof extent)
        return gw_fail(error, GW_E_LOAD, "a kernel has a long name: %.100s", symbol);
    linked->kernels[number] = (int64_t)(intptr_t)gw_symbol(object, symbol);
    linked->extents[number] = (int64_t)(intptr_t)gw_symbol(object, extent);
    bool found = linked->kernels[number] && (is_foreign || linked->extents[number]);
    return found || gw_fail(error, GW_E_LOAD, "there is no kernel %.200s", symbol);
}

void gw_linked_weights(gw_linked *linked, const void *data, int64_t bytes) {
    linked->weights = data;
    linked->links.weight_bytes = bytes;
}

gw_plan *gw_linked_plan(gw_linked *linked, const int64_t *dims, int threads, gw_error *error) {
    return gw_plan_take(&linked->plans, linked->program, &linked->links, dims, threads, error);
}

bool gw_linked_run(gw_linked *linked, gw_call *call, gw_error *error) {
    call->program = linked->program;
    call->kernels = linked->kernels;
    call->weights = linked->weights;
    call->context = gw_context_take(&linked->contexts, linked->program, call->plan, error);
    if (!call->context)
        return false;
    bool done = gw_execute(call, error);
    gw_context_give(&linked->contexts, call->context);
    return done;
}

void gw_linked_free(gw_linked *linked) {
    if (!linked->program)
        return;
    gw_context_pool_clear(&linked->contexts);
    gw_plan_cache_clear(&linked->plans);
    gw_program_free(linked->program);
    free(linked->kernels), free(linked->extents);
    *linked = (gw_linked){0};
}
