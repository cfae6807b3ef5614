/* Eight threads run one model: threads MODEL INPUT.bin ROWS COLUMNS EXPECTED.bin RUNS. Each run must give the
   expected bytes: into memory of the request, of the caller, and when it is started. */
#include <graphwright.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, WAYS = 3 };

static gw_model *model;
static float *input, *expected;
static size_t input_bytes, expected_bytes;
static int64_t sizes[2];
static int runs;

static void need(int holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, gw_error_text());
    exit(1);
}

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    need(file != NULL, path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*size + 1);
    need(data && fread(data, 1, *size, file) == *size, path);
    fclose(file);
    return data;
}

static void count_end(gw_request *request, gw_status status, const char *text, void *user) {
    (void)request, (void)text;
    *(int *)user += status == GW_STATUS_OK;
}

static void *work(void *unused) {
    gw_request *request;
    float *own = malloc(expected_bytes);
    int ended = 0;
    (void)unused;
    need(own && gw_request_create(model, &request) == GW_STATUS_OK, "create");
    for (int run = 0; run < runs; run++) {
        int way = run % WAYS;
        need(gw_request_set_input(request, 0, input, input_bytes, sizes, 2) == GW_STATUS_OK, "input");
        need(gw_request_set_output(request, 0, way == 1 ? own : NULL, expected_bytes) == GW_STATUS_OK,
             "output");
        if (way == 2) {
            need(gw_request_start(request, count_end, &ended) == GW_STATUS_OK, "start");
            need(gw_request_wait(request) == GW_STATUS_OK, "wait");
        } else {
            need(gw_request_run(request) == GW_STATUS_OK, "run");
        }
        need(memcmp(gw_request_output_data(request, 0), expected, expected_bytes) == 0, "other bits");
    }
    need(ended == runs / WAYS, "callbacks");
    gw_request_destroy(request);
    free(own);
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    need(count == 7, "arguments");
    need(gw_open(arguments[1], NULL, &model) == GW_STATUS_OK, "open");
    input = read_file(arguments[2], &input_bytes);
    sizes[0] = atoll(arguments[3]), sizes[1] = atoll(arguments[4]);
    expected = read_file(arguments[5], &expected_bytes);
    runs = atoi(arguments[6]);
    for (int i = 0; i < THREADS; i++)
        need(pthread_create(&threads[i], NULL, work, NULL) == 0, "thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    gw_close(model);
    free(input), free(expected);
    puts("ok");
    return 0;
}
