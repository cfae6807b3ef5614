#include "events.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"

enum { CHUNK = 1023, NAME = 16 };

/* A part of a buffer. The writer allocates it before it counts an event in it. */
typedef struct chunk {
    struct chunk *next;
    gw_event events[CHUNK];
} chunk;

struct gw_event_buffer {
    gw_event_buffer *before;
    int64_t thread;
    char name[NAME];
    gw_counter_group counters;
    bool counts; /* whether opening the counters was attempted */
    chunk *first, *last;
    atomic_int_least64_t count; /* of complete events, which are never written again */
    atomic_int_least64_t lost;
};

struct gw_recording {
    int64_t serial;
    atomic_int_least64_t capacity;
    int readers, references; /* under the global lock; a reader has a reference */
    atomic_int timers;       /* readers that ask for processor times */
    atomic_int counting;     /* readers that ask for counters */
    int counter_count,
        counters[GW_MOST_COUNTERS]; /* those of the first such reader, for the whole recording */
    gw_event_buffer *last;          /* under the global lock */
    atomic_int_least64_t lost;
};

gw_recording *gw_current_recording; /* changes under the global lock */

/* The buffer of this thread, and the recording that it belongs to. */
static _Thread_local struct {
    int64_t serial;
    gw_event_buffer *buffer;
} mine;

/* ---- references ---- */

static void free_recording(gw_recording *r) {
    for (gw_event_buffer *b = r->last, *before; b; b = before) {
        before = b->before;
        gw_close_counters(&b->counters);
        for (chunk *c = b->first, *next; c; c = next) {
            next = c->next;
            free(c);
        }
        free(b);
    }
    free(r);
}

gw_recording *gw_recording_take(void) {
    if (!gw_is_recording())
        return NULL;
    gw_global_lock();
    gw_recording *r = gw_current_recording;
    if (r)
        r->references++;
    gw_global_unlock();
    return r;
}

void gw_recording_release(gw_recording *r) {
    if (!r)
        return;
    gw_global_lock();
    bool last = --r->references == 0;
    gw_global_unlock();
    if (last)
        free_recording(r);
}

/* Makes the requested counters those of the recording; false if it has others. The global lock is held. */
static bool takes_counters(gw_recording *r, const gw_recording_request *request) {
    const size_t bytes = (size_t)request->counter_count * sizeof *request->counters;
    if (request->counter_count > 0 && r->counter_count == 0) {
        memcpy(r->counters, request->counters, bytes);
        r->counter_count = request->counter_count;
    }
    return request->counter_count == 0 ||
           (r->counter_count == request->counter_count && memcmp(r->counters, request->counters, bytes) == 0);
}

/* The global lock is held. */
static void add_reader(gw_recording *r, const gw_recording_request *request) {
    r->readers++;
    r->references++;
    if (request->capacity > atomic_load(&r->capacity))
        atomic_store(&r->capacity, request->capacity);
    atomic_fetch_add(&r->timers, request->processor);
    atomic_fetch_add(&r->counting, request->counter_count > 0);
}

gw_recording *gw_recording_start(const gw_recording_request *request, bool *clash) {
    static int64_t serials;
    gw_recording *made = calloc(1, sizeof *made);
    gw_global_lock();
    gw_recording *r = gw_current_recording ? gw_current_recording : made;
    *clash = r && !takes_counters(r, request);
    if (r == made && made) {
        made = NULL;
        r->serial = ++serials;
        __atomic_store_n(&gw_current_recording, r, __ATOMIC_RELEASE);
    }
    if (*clash)
        r = NULL;
    if (r)
        add_reader(r, request);
    gw_global_unlock();
    free(made);
    return r;
}

void gw_recording_stop(gw_recording *r, const gw_recording_request *request) {
    gw_global_lock();
    atomic_fetch_sub(&r->timers, request->processor);
    atomic_fetch_sub(&r->counting, request->counter_count > 0);
    if (--r->readers == 0 && gw_current_recording == r)
        __atomic_store_n(&gw_current_recording, NULL, __ATOMIC_RELEASE);
    gw_global_unlock();
    gw_recording_release(r);
}

/* The child has only one thread and no readers. */
void gw_events_after_fork(void) { gw_current_recording = NULL; }

/* ---- writing ---- */

bool gw_wants_processor_time(const gw_recording *r) {
    return atomic_load_explicit(&r->timers, memory_order_relaxed) > 0;
}

bool gw_wants_counters(const gw_recording *r) {
    return atomic_load_explicit(&r->counting, memory_order_acquire) > 0;
}

int64_t gw_next_run(void) {
    static atomic_int_least64_t runs;
    return atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed) + 1;
}

static gw_event_buffer *open_buffer(gw_recording *r) {
    gw_event_buffer *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->thread = syscall(SYS_gettid);
    pthread_getname_np(pthread_self(), b->name, sizeof b->name);
    gw_global_lock();
    b->before = r->last;
    r->last = b;
    gw_global_unlock();
    mine.serial = r->serial;
    mine.buffer = b;
    return b;
}

/* The memory of event number `at` of the buffer; NULL if memory is exhausted. */
static gw_event *event_at(gw_event_buffer *b, int64_t at) {
    if (at % CHUNK == 0) {
        chunk *made = malloc(sizeof *made);
        if (!made)
            return NULL;
        made->next = NULL;
        *(b->last ? &b->last->next : &b->first) = made;
        b->last = made;
    }
    return &b->last->events[at % CHUNK];
}

static gw_event_buffer *own_buffer(gw_recording *r) {
    return mine.serial == r->serial ? mine.buffer : open_buffer(r);
}

void gw_count(gw_recording *r, int64_t values[GW_MOST_COUNTERS]) {
    static const gw_counter_group none;
    gw_event_buffer *b = own_buffer(r);
    if (b && !b->counts) {
        b->counts = true;
        gw_open_counters(&b->counters, r->counters, r->counter_count);
    }
    gw_read_counters(b ? &b->counters : &none, values);
}

void gw_record(gw_recording *r, const gw_event *event) {
    gw_event_buffer *b = own_buffer(r);
    if (!b) {
        atomic_fetch_add(&r->lost, 1);
        return;
    }
    int64_t at = atomic_load_explicit(&b->count, memory_order_relaxed);
    gw_event *to = at < atomic_load_explicit(&r->capacity, memory_order_relaxed) ? event_at(b, at) : NULL;
    if (!to) {
        atomic_fetch_add_explicit(&b->lost, 1, memory_order_relaxed);
        return;
    }
    *to = *event;
    atomic_store_explicit(&b->count, at + 1, memory_order_release);
}

void gw_note(const gw_event *event) {
    gw_recording *r = gw_recording_take();
    if (!r)
        return;
    gw_record(r, event);
    gw_recording_release(r);
}

/* ---- reading ---- */

gw_event_buffer *gw_last_buffer(gw_recording *r) {
    gw_global_lock();
    gw_event_buffer *last = r->last;
    gw_global_unlock();
    return last;
}

gw_event_buffer *gw_buffer_before(const gw_event_buffer *b) { return b->before; }
int64_t gw_buffer_thread(const gw_event_buffer *b) { return b->thread; }
const char *gw_buffer_name(const gw_event_buffer *b) { return b->name; }
int64_t gw_buffer_count(const gw_event_buffer *b) {
    return atomic_load_explicit(&b->count, memory_order_acquire);
}
int64_t gw_buffer_lost(const gw_event_buffer *b) { return atomic_load(&b->lost); }
int64_t gw_recording_lost(const gw_recording *r) { return atomic_load(&r->lost); }

/* Must not read past the last of these events, nor its pointer to the next part: they belong to the writer.
 */
void gw_buffer_copy(const gw_event_buffer *b, int64_t first, int64_t end, gw_event *to) {
    if (first >= end)
        return;
    const chunk *c = b->first;
    for (int64_t skipped = CHUNK; skipped <= first; skipped += CHUNK)
        c = c->next;
    while (first < end) {
        int64_t from = first % CHUNK, count = end - first < CHUNK - from ? end - first : CHUNK - from;
        memcpy(to, c->events + from, (size_t)count * sizeof *to);
        to += count;
        first += count;
        if (first < end)
            c = c->next;
    }
}
