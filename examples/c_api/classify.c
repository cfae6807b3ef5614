/* Classifies one image: prints the five best classes, and the median time of a run.

       cc -O2 classify.c $(python -m graphwright.c_api --cflags --libs) -o classify
       ./classify model.om pixels.bin 1,3,224,224 [RUNS [THREADS]]

   pixels.bin holds the elements of the model's first input in row-major order; the sizes follow.
   Classes are the last axis of the first output, in f32. */
#include <graphwright.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_AXES = 16, BEST = 5 };

static void stop(const char *what) {
    fprintf(stderr, "classify: %s\n", what);
    exit(1);
}

static void check(gw_status status) {
    if (status != GW_STATUS_OK)
        stop(gw_error_text());
}

/* Reads sizes such as "1,3,224,224"; returns their number. */
static int read_sizes(const char *text, int64_t sizes[MOST_AXES]) {
    int rank = 0;
    for (char *end; rank < MOST_AXES && *text; text = *end ? end + 1 : end)
        sizes[rank++] = strtoll(text, &end, 10);
    return rank;
}

/* Reads a file; the caller frees the bytes. */
static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file)
        stop("the pixels cannot be read");
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, file) != *size)
        stop("the pixels cannot be read");
    fclose(file);
    return data;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs the request several times; returns the median time in seconds. */
static double time_runs(gw_request *request, int runs) {
    double *seconds = malloc((size_t)runs * sizeof *seconds);
    if (!seconds)
        stop("not enough memory");
    for (int i = 0; i < runs; i++) {
        double start = now();
        check(gw_request_run(request));
        seconds[i] = now() - start;
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, by_size);
    double median = seconds[runs / 2];
    free(seconds);
    return median;
}

static void print_best(const float *scores, int64_t classes) {
    int64_t best[BEST];
    int count = 0;
    for (int64_t i = 0; i < classes; i++) {
        int at = count < BEST ? count++ : BEST;
        for (; at > 0 && scores[i] > scores[best[at - 1]]; at--)
            if (at < BEST)
                best[at] = best[at - 1];
        if (at < BEST)
            best[at] = i;
    }
    for (int i = 0; i < count; i++)
        printf("%lld %.6f\n", (long long)best[i], (double)scores[best[i]]);
}

int main(int count, char **arguments) {
    gw_model *model;
    gw_request *request;
    int64_t sizes[MOST_AXES];
    size_t bytes;
    if (count < 4)
        stop("give MODEL.om PIXELS.bin SIZES [RUNS [THREADS]]");
    int runs = count > 4 ? atoi(arguments[4]) : 1;
    check(gw_set_threads(count > 5 ? atoi(arguments[5]) : 0));
    check(gw_open(arguments[1], NULL, &model));
    void *pixels = read_file(arguments[2], &bytes);
    int rank = read_sizes(arguments[3], sizes);

    check(gw_request_create(model, &request));
    check(gw_request_set_input(request, 0, pixels, bytes, sizes, rank));
    check(gw_request_plan(request)); /* now the sizes of the output are known */
    int axes = gw_request_output_rank(request, 0);
    if (gw_tensor_dtype(gw_output(model, 0)) != GW_DTYPE_F32 || axes < 1)
        stop("the first output has no classes of f32");

    double seconds = time_runs(request, runs > 0 ? runs : 1);
    print_best(gw_request_output_data(request, 0), gw_request_output_size(request, 0, axes - 1));
    printf("%.4f ms\n", 1e3 * seconds);

    gw_request_destroy(request);
    gw_close(model);
    free(pixels);
    return 0;
}
