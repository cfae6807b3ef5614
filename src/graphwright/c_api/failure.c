#include "failure.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 2048 };

static pthread_key_t
    key; /* of each thread's text: storage of threads is scarce in a library that is loaded */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_key;

static void make_key(void) { has_key = pthread_key_create(&key, free) == 0; }

/* NULL if memory is exhausted. */
static char *text_of_thread(void) {
    pthread_once(&once, make_key);
    char *text = has_key ? pthread_getspecific(key) : NULL;
    if (text || !has_key)
        return text;
    text = calloc(1, TEXT);
    if (text && pthread_setspecific(key, text) == 0)
        return text;
    free(text);
    return NULL;
}

gw_status fail(gw_status status, const char *format, ...) {
    char text[TEXT], *kept = text_of_thread(); /* a copy, since the arguments may include the previous text */
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (kept)
        snprintf(kept, TEXT, "%s", text);
    return status;
}

gw_status fail_memory(void) { return fail(GW_STATUS_MEMORY, "not enough memory"); }

static gw_status status_of(gw_error_kind kind) {
    switch (kind) {
    case GW_E_FEED:
    case GW_E_CHECK:
    case GW_E_PLAN: return GW_STATUS_SHAPE;
    case GW_E_KERNEL:
    case GW_E_HOST: return GW_STATUS_RUN;
    case GW_E_MEMORY: return GW_STATUS_MEMORY;
    default: return GW_STATUS_PACKAGE;
    }
}

gw_status fail_runtime(const char *what, const gw_error *error) {
    return fail(status_of(error->kind), "%s: %s", what, error->text);
}

const char *gw_error_text(void) {
    const char *text = text_of_thread();
    return text ? text : "not enough memory";
}

const char *gw_status_name(gw_status status) {
    static const char *const names[] = {"ok",          "argument", "file", "package", "untrusted",
                                        "unsupported", "shape",    "run",  "memory"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unknown";
}
