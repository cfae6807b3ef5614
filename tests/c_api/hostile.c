/* hostile plan|run PACKAGE...: opens each package with trust, and plans or runs it for sizes of 1: prints the
   status of each. Damaged tasks are only planned: what a kernel computes, the next may take for places. */
#include <graphwright.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = 64 };

static gw_status set_inputs(gw_model *model, gw_request *request, void **memory) {
    gw_status status = GW_STATUS_OK;
    for (size_t i = 0; i < gw_input_count(model) && status == GW_STATUS_OK; i++) {
        const gw_tensor_info *info = gw_input(model, i);
        int64_t sizes[MOST_AXES];
        int rank = gw_tensor_rank(info) < 0 ? 0 : gw_tensor_rank(info);
        size_t bytes = gw_dtype_bytes(gw_tensor_dtype(info));
        for (int axis = 0; axis < rank; axis++) {
            sizes[axis] = gw_tensor_size(info, axis) < 0 ? 1 : gw_tensor_size(info, axis);
            bytes *= (size_t)sizes[axis];
        }
        if (bytes > 1 << 24)
            return GW_STATUS_SHAPE;
        *memory = realloc(*memory, bytes + 1);
        status = gw_request_set_input(request, i, *memory, bytes, sizes, rank);
    }
    return status;
}

static gw_status try_package(const char *path, const gw_options *options, int runs) {
    gw_model *model;
    gw_request *request;
    void *memory = NULL;
    gw_status status = gw_open(path, options, &model);
    if (status != GW_STATUS_OK)
        return status;
    status = gw_request_create(model, &request);
    if (status == GW_STATUS_OK) {
        status = set_inputs(model, request, &memory);
        if (status == GW_STATUS_OK)
            status = runs ? gw_request_run(request) : gw_request_plan(request);
        gw_request_destroy(request);
    }
    free(memory);
    gw_close(model);
    return status;
}

int main(int count, char **arguments) {
    gw_options *options;
    if (gw_options_create(&options) || gw_options_set_trust(options, 1))
        return 1;
    for (int i = 2; i < count; i++)
        puts(gw_status_name(try_package(arguments[i], options, strcmp(arguments[1], "run") == 0)));
    gw_options_destroy(options);
    return 0;
}
