/* several local|global ROWS LIBRARY...: loads standalone libraries, opens the model of each, and runs all of
   them in turn, and then all at the same time, a thread each. The outputs of each go to standard output, by
   model. Element number k of an input is sin(0.1 * k). */
#include <dlfcn.h>
#include <graphwright.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 80, RUNS = 50 };

typedef struct {
    void *handle;
    gw_model *model;
    gw_request *request;
    float *x;
    const void *data;
    size_t bytes;
    int64_t rows;
} opened;

#define CALL(o, function) ((__typeof__(&function))dlsym((o)->handle, #function))

static void fail(const opened *o) {
    fprintf(stderr, "%s\n", o ? CALL(o, gw_error_text)() : dlerror());
    exit(1);
}

static void open_model(opened *o, const char *path, int how) {
    o->handle = dlopen(path, RTLD_NOW | how);
    if (!o->handle)
        fail(NULL);
    if (CALL(o, gw_open_embedded)(NULL, &o->model) || CALL(o, gw_request_create)(o->model, &o->request))
        fail(o);
    int64_t width = CALL(o, gw_tensor_size)(CALL(o, gw_input)(o->model, 0), 1), count = o->rows * width;
    int64_t shape[] = {o->rows, width};
    o->x = malloc((size_t)count * sizeof *o->x);
    for (int64_t k = 0; k < count; k++)
        o->x[k] = (float)sin(0.1 * (double)k);
    if (CALL(o, gw_request_set_input)(o->request, 0, o->x, (size_t)count * sizeof *o->x, shape, 2))
        fail(o);
}

static void run(opened *o) {
    if (CALL(o, gw_request_run)(o->request))
        fail(o);
    o->data = CALL(o, gw_request_output_data)(o->request, 0);
    o->bytes = CALL(o, gw_request_output_bytes)(o->request, 0);
    fwrite(o->data, 1, o->bytes, stdout);
}

static void *run_often(void *argument) {
    opened *o = argument;
    char *first = malloc(o->bytes);
    memcpy(first, o->data, o->bytes);
    for (int k = 0; k < RUNS; k++) {
        if (CALL(o, gw_request_run)(o->request))
            fail(o);
        if (memcmp(first, CALL(o, gw_request_output_data)(o->request, 0), o->bytes) != 0)
            exit(3);
    }
    free(first);
    return NULL;
}

int main(int count, char **arguments) {
    static opened all[MOST];
    pthread_t threads[MOST];
    int how = strcmp(arguments[1], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL, models = count - 3;
    for (int i = 0; i < models; i++) {
        all[i].rows = atoll(arguments[2]);
        open_model(&all[i], arguments[i + 3], how);
    }
    for (int i = 0; i < models; i++)
        run(&all[i]);
    for (int i = 0; i < models; i++)
        pthread_create(&threads[i], NULL, run_often, &all[i]);
    for (int i = 0; i < models; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < models; i++) {
        CALL(&all[i], gw_request_destroy)(all[i].request);
        CALL(&all[i], gw_close)(all[i].model);
        dlclose(all[i].handle);
        free(all[i].x);
    }
    return 0;
}
