/* standalone [!COMMAND | cd=FOLDER]... ROWS...: after the commands, opens the model of the library that it is
   linked with, and runs it once for each number of rows of its input. The rows of outputs go to standard
   output. Element number k of an input is sin(0.1 * k). */
#include <graphwright.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(void) {
    fprintf(stderr, "%s\n", gw_error_text());
    return 1;
}

static int run(gw_request *request, int64_t rows, int64_t width) {
    int64_t shape[] = {rows, width}, count = rows * width;
    float *x = malloc((size_t)count * sizeof *x + 1);
    for (int64_t k = 0; k < count; k++)
        x[k] = (float)sin(0.1 * (double)k);
    int failed =
        gw_request_set_input(request, 0, x, (size_t)count * sizeof *x, shape, 2) || gw_request_run(request);
    if (!failed)
        fwrite(gw_request_output_data(request, 0), 1, gw_request_output_bytes(request, 0), stdout);
    free(x);
    return failed;
}

static int prepare(const char *argument) {
    if (*argument == '!')
        return system(argument + 1);
    return chdir(argument + strlen("cd="));
}

int main(int count, char **arguments) {
    gw_model *model;
    gw_request *request;
    int at = 1, failed = 0;
    for (; at < count && (*arguments[at] == '!' || *arguments[at] == 'c'); at++)
        if (prepare(arguments[at]))
            return 2;
    if (gw_open_embedded(NULL, &model) || gw_request_create(model, &request))
        return fail();
    for (; at < count && !failed; at++)
        failed = run(request, atoll(arguments[at]), gw_tensor_size(gw_input(model, 0), 1));
    if (failed)
        fail();
    gw_request_destroy(request);
    gw_close(model);
    return failed;
}
