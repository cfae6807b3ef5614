/* Runs the model of a standalone library on zeros: prints its inputs and outputs, and the first elements of each
   f32 output.

       graph-autofusion --input model.onnx --output fused.onnx --standalone
       cc -O2 embedded.c -I$(python -m graphwright.c_api --include-dir) -L. -lfused -o embedded
       LD_LIBRARY_PATH=. ./embedded [SIZE]

   Dynamic dimensions get the size SIZE, by default 1. */
#include <graphwright.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_AXES = 16, SHOWN = 4 };

static void check(gw_status status) {
    if (status == GW_STATUS_OK)
        return;
    fprintf(stderr, "embedded: %s\n", gw_error_text());
    exit(1);
}

static void print_info(const char *kind, const gw_tensor_info *info) {
    printf("%s %s: %s[", kind, gw_tensor_name(info), gw_dtype_name(gw_tensor_dtype(info)));
    for (int axis = 0; axis < gw_tensor_rank(info); axis++) {
        const char *symbol = gw_tensor_symbol(info, axis), *between = axis ? ", " : "";
        if (symbol)
            printf("%s%s", between, symbol);
        else
            printf("%s%lld", between, (long long)gw_tensor_size(info, axis));
    }
    puts("]");
}

/* Sets an input to zeros; returns them, for the caller to free. */
static void *set_zeros(gw_request *request, size_t index, const gw_tensor_info *info, int64_t dynamic) {
    int64_t shape[MOST_AXES];
    size_t bytes = gw_dtype_bytes(gw_tensor_dtype(info));
    int rank = gw_tensor_rank(info);
    for (int axis = 0; axis < rank && axis < MOST_AXES; axis++) {
        shape[axis] = gw_tensor_symbol(info, axis) ? dynamic : gw_tensor_size(info, axis);
        bytes *= (size_t)shape[axis];
    }
    void *zeros = calloc(bytes + 1, 1);
    check(gw_request_set_input(request, index, zeros, bytes, shape, rank));
    return zeros;
}

static void print_elements(const gw_request *request, size_t index) {
    const float *data = gw_request_output_data(request, index);
    size_t count = gw_request_output_bytes(request, index) / sizeof *data;
    for (size_t i = 0; i < count && i < SHOWN; i++)
        printf(" %g", (double)data[i]);
    puts(count > SHOWN ? " ..." : "");
}

int main(int count, char **arguments) {
    gw_model *model;
    gw_request *request;
    check(gw_open_embedded(NULL, &model));
    check(gw_request_create(model, &request));
    size_t inputs = gw_input_count(model);
    void **zeros = calloc(inputs + 1, sizeof *zeros);
    if (!zeros)
        return 1;
    for (size_t i = 0; i < inputs; i++) {
        print_info("input", gw_input(model, i));
        zeros[i] = set_zeros(request, i, gw_input(model, i), count > 1 ? atoll(arguments[1]) : 1);
    }
    check(gw_request_run(request));
    for (size_t i = 0; i < gw_output_count(model); i++) {
        print_info("output", gw_output(model, i));
        if (gw_tensor_dtype(gw_output(model, i)) == GW_DTYPE_F32)
            print_elements(request, i);
    }
    gw_request_destroy(request);
    gw_close(model);
    for (size_t i = 0; i < inputs; i++)
        free(zeros[i]);
    free(zeros);
    return 0;
}
