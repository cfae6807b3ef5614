/* Test of the C runtime without Python, for sanitizers: `stress ROUNDS FILE...` runs programs from several
   threads and compares; with 0 rounds it runs them with every word replaced. Prints "ok"; any other end is a
   failure. A file holds int64: number of words, the words, number of elements, the input, the expected
   output. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "events.h"
#include "exec.h"
#include "plan.h"
#include "pool.h"
#include "program.h"

#define REQUIRE(condition)                                                                                   \
    do                                                                                                       \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    while (0)

enum {
    CALLERS = 3,
    MOST_THREADS = 4,
    WEIGHT_BYTES = 16,
    MOST_ARENA = 1 << 22,
    KERNELS = 4,
    MOST_CALLS = 1000
};

static atomic_int idle_calls;
static const char weights[WEIGHT_BYTES] = {1, [8] = 2};

typedef struct {
    int64_t word_count, element_count;
    int64_t *words, *input, *expected;
} test_case;

static int64_t *read_words(FILE *file, int64_t count) {
    int64_t *words = malloc((size_t)count * 8 + 8);
    REQUIRE(words && fread(words, 8, (size_t)count, file) == (size_t)count);
    return words;
}

static test_case read_case(const char *path) {
    test_case c;
    FILE *file = fopen(path, "rb");
    REQUIRE(file && fread(&c.word_count, 8, 1, file) == 1);
    c.words = read_words(file, c.word_count);
    REQUIRE(fread(&c.element_count, 8, 1, file) == 1);
    c.input = read_words(file, c.element_count);
    c.expected = read_words(file, c.element_count);
    fclose(file);
    return c;
}

/* out = (3 a + b + arg) mod 1000003, through scratch */
static int32_t mix(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    int64_t *t = scratch;
    for (int64_t i = begin; i < end; i++) {
        t[i] = ((const int64_t *)buf[0])[i] * 3;
        ((int64_t *)buf[2])[i] = (t[i] + ((const int64_t *)buf[1])[i] + arg[0]) % 1000003;
    }
    return 0;
}

/* Fails in the end, so that loops do which a damaged word makes endless. */
static int32_t idle(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    return (void)buf, (void)arg, (void)begin, (void)end, (void)scratch, --idle_calls < 0;
}

static int32_t host(void *data, const gw_plan *plan, int64_t task, void *const *operands) {
    return (void)data, (void)plan, (void)task, (void)operands, 0;
}

/* ---- threads of a host's own ---- */

typedef struct {
    bool (*body)(void *data);
    void *data;
} host_thread;

static void *run_host_thread(void *argument) {
    const host_thread *t = argument;
    t->body(t->data);
    return NULL;
}

/* One thread more than a run has room for, and the caller once again behind the end of the run. */
static void spread(void *data, bool (*body)(void *data), void *body_data) {
    pthread_t threads[MOST_THREADS];
    host_thread t = {body, body_data};
    (void)data;
    for (int i = 0; i < MOST_THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, run_host_thread, &t) == 0);
    body(body_data);
    REQUIRE(!body(body_data));
    for (int i = 0; i < MOST_THREADS; i++)
        pthread_join(threads[i], NULL);
}

typedef struct {
    const test_case *c;
    gw_program *program;
    int64_t kernels[KERNELS];
    gw_plan_cache plans;
    gw_context_pool contexts;
    gw_arena_pool arenas;
    int rounds;
} model;

/* Runs once, in threads of the pool or, with `spread`, in those; false if the runtime refuses. */
static bool run_once(model *m, const int64_t *dims, const void *input, void *output, int threads, bool poison,
                     gw_spread spread) {
    gw_error error = {0};
    gw_plan *plan = gw_plan_take(&m->plans, m->program, &(gw_links){WEIGHT_BYTES, m->kernels, NULL}, dims,
                                 threads, &error);
    if (!plan)
        return false;
    bool fits = plan->arena_bytes <= MOST_ARENA && plan->output_bytes[0] <= m->c->element_count * 8 &&
                plan->input_bytes[0] <= m->c->element_count * 8;
    gw_context *context = fits ? gw_context_take(&m->contexts, m->program, plan, &error) : NULL;
    bool done = false;
    gw_recording *recording = gw_recording_take();
    if (context) {
        gw_call call = {m->program,
                        plan,
                        context,
                        m->kernels,
                        weights,
                        &(void *const){(void *)(uintptr_t)input},
                        &(void *const){output},
                        host,
                        NULL,
                        NULL,
                        poison,
                        recording,
                        NULL,
                        NULL,
                        spread};
        done = gw_execute(&call, &error);
        gw_context_give(&m->contexts, context);
    }
    gw_recording_release(recording);
    gw_plan_release(plan);
    return done;
}

static bool open_model(model *m, const test_case *c, const int64_t *words, gw_kernel kernel) {
    gw_error error = {0};
    *m = (model){.c = c, .plans.bound = 2, .contexts = {.bound = 2, .arenas = &m->arenas}, .arenas.bound = 2};
    for (int i = 0; i < KERNELS; i++)
        m->kernels[i] = (int64_t)(uintptr_t)kernel;
    m->program = gw_program_decode(words, (size_t)c->word_count * 8, &error);
    return m->program != NULL;
}

static void close_model(model *m) {
    gw_context_pool_clear(&m->contexts);
    gw_arena_pool_clear(&m->arenas);
    gw_plan_cache_clear(&m->plans);
    gw_program_free(m->program);
}

static void *call_often(void *argument) {
    model *m = argument;
    int64_t *output = malloc((size_t)m->c->element_count * 8 + 8);
    REQUIRE(output);
    for (int round = 0; round < m->rounds; round++) {
        memset(output, 0, (size_t)m->c->element_count * 8);
        REQUIRE(run_once(m, &m->c->element_count, m->c->input, output, 1 + round % MOST_THREADS,
                         round % 3 == 0, round % 8 == 1 ? spread : NULL));
        REQUIRE(memcmp(output, m->c->expected, (size_t)m->c->element_count * 8) == 0);
    }
    free(output);
    return NULL;
}

/* Runs that are recorded so far; all events are read. */
static int64_t recorded_runs(gw_recording *recording) {
    int64_t runs = 0;
    for (gw_event_buffer *b = gw_last_buffer(recording); b; b = gw_buffer_before(b)) {
        int64_t count = gw_buffer_count(b);
        gw_event *events = malloc((size_t)count * sizeof *events + 1);
        REQUIRE(events && gw_buffer_lost(b) == 0);
        gw_buffer_copy(b, 0, count, events);
        for (int64_t i = 0; i < count; i++)
            runs += events[i].kind == GW_EVENT_RUN;
        free(events);
    }
    return runs;
}

/* Readers come and go while others record. */
static void read_often(void) {
    for (int i = 0; i < 30; i++) {
        bool clash;
        const gw_recording_request request = {
            .capacity = 1, .processor = i % 2, .counter_count = i % 3 == 0, .counters = {GW_PAGE_FAULTS}};
        gw_recording *reader = gw_recording_start(&request, &clash);
        REQUIRE(reader && !clash && recorded_runs(reader) >= 0);
        gw_recording_stop(reader, &request);
    }
}

static void stress(const test_case *c, int rounds) {
    model m;
    pthread_t callers[CALLERS];
    REQUIRE(open_model(&m, c, c->words, mix));
    m.rounds = rounds;
    const gw_recording_request request = {.capacity = 1 << 20};
    bool clash;
    gw_recording *recording = gw_recording_start(&request, &clash);
    REQUIRE(recording && !clash);
    for (int i = 0; i < CALLERS; i++)
        REQUIRE(pthread_create(&callers[i], NULL, call_often, &m) == 0);
    read_often();
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    REQUIRE(recorded_runs(recording) == CALLERS * rounds);
    gw_recording_stop(recording, &request);
    REQUIRE(!gw_is_recording());
    close_model(&m);
}

/* Accepted or refused, but nothing is touched that may not be: that is for the sanitizer to see. */
static void try_words(const test_case *c, const int64_t *words, void *output) {
    model m;
    idle_calls = MOST_CALLS;
    if (!open_model(&m, c, words, idle))
        return;
    if (m.program->kernel_count <= KERNELS && m.program->input_count == 1 && m.program->output_count == 1 &&
        m.program->input_dim_count == 1)
        run_once(&m, &c->element_count, c->input, output, 2, true, NULL);
    close_model(&m);
}

static void corrupt(const test_case *c) {
    static const int64_t replacements[] = {
        INT64_MIN, -3, -2, -1, 0, 1, 2, 3, 5, 8, 63, 64, 65, 1 << 20, INT64_MAX / 8, INT64_MAX};
    int64_t *words = malloc((size_t)c->word_count * 8), *output = malloc((size_t)c->element_count * 8 + 8);
    REQUIRE(words && output);
    for (int64_t at = 0; at < c->word_count; at++)
        for (size_t i = 0; i < 2 + sizeof replacements / 8; i++) {
            memcpy(words, c->words, (size_t)c->word_count * 8);
            words[at] = i == 0 ? words[at] + 1 : i == 1 ? words[at] - 1 : replacements[i - 2];
            try_words(c, words, output);
        }
    free(words);
    free(output);
}

int main(int count, char **arguments) {
    REQUIRE(count > 2);
    int rounds = atoi(arguments[1]);
    for (int i = 2; i < count; i++) {
        test_case c = read_case(arguments[i]);
        if (rounds > 0)
            stress(&c, rounds);
        else
            corrupt(&c);
        free(c.words), free(c.input), free(c.expected);
    }
    puts("ok");
    return 0;
}
