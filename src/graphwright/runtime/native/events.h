/* Recording of events: while a recording is active, events of runs, plans and memory are written to one
   buffer per thread. Writing takes no lock; a full buffer counts the events that it drops. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counters.h"

/* Kinds from GW_EVENT_OTHERS on are defined in Python. */
enum {
    GW_EVENT_RUN,    /* of a plan */
    GW_EVENT_PIECE,  /* units [a, b) of a task, on one thread */
    GW_EVENT_OPEN,   /* an IF or a LOOP begins */
    GW_EVENT_CLOSE,  /* an IF or a LOOP ends */
    GW_EVENT_PLAN,   /* a plan is found in the cache (a is 1) or made (0) */
    GW_EVENT_MEMORY, /* an arena has grown by a bytes; all arenas of its pool have b */
    GW_EVENT_OTHERS
};

typedef struct {
    int64_t start, end; /* gw_now() */
    int32_t kind;
    int32_t slot; /* of a PIECE: of the thread in its run; of a RUN: 0, or the gw_error_kind that ended it */
    int64_t run;  /* a number that no other run of the process has */
    int64_t id;   /* PIECE, OPEN, CLOSE: the task; RUN, PLAN: the plan's serial */
    int64_t a, b; /* of a RUN: bytes of the arena, and threads */
    int64_t processor; /* PIECE: CPU time of the thread in ns, if the recording asks for it; or 0 */
    int64_t counted[GW_MOST_COUNTERS]; /* PIECE: the recording's counters, if it has any; or 0 */
} gw_event;

/* The settings of a recording. */
typedef struct {
    int64_t capacity;                              /* events that a thread keeps */
    bool processor;                                /* processor times */
    int counter_count, counters[GW_MOST_COUNTERS]; /* see gw_counter */
} gw_recording_request;

typedef struct gw_recording gw_recording;
typedef struct gw_event_buffer gw_event_buffer;

/* ---- writers ---- */

extern gw_recording *gw_current_recording; /* or NULL; use gw_recording_take to access it */

static inline bool gw_is_recording(void) {
    return __atomic_load_n(&gw_current_recording, __ATOMIC_RELAXED) != NULL;
}

/* Takes a reference to the active recording of the process, or returns NULL. Writers must hold a reference.
 */
gw_recording *gw_recording_take(void);
void gw_recording_release(gw_recording *recording);
/* Whether the recording has CPU times. */
bool gw_wants_processor_time(const gw_recording *recording);
/* Whether the recording has counters. */
bool gw_wants_counters(const gw_recording *recording);
/* Reads the recording's counters for this thread; 0 if it has none. */
void gw_count(gw_recording *recording, int64_t values[GW_MOST_COUNTERS]);

/* Records an event of this thread. */
void gw_record(gw_recording *recording, const gw_event *event);
/* Like gw_record, without a reference: records the event if a recording is active. */
void gw_note(const gw_event *event);
int64_t gw_next_run(void);

/* ---- readers ---- */

/* Starts a recording, or joins the active one. NULL if there is no memory, or if another reader uses other
   counters, which sets `*clash`. */
gw_recording *gw_recording_start(const gw_recording_request *request, bool *clash);
/* Leaves the recording, which ends with its last reader; its memory is freed with the last reference. */
void gw_recording_stop(gw_recording *recording, const gw_recording_request *request);

/* The last buffer so far; gw_buffer_before gives the one before it, or NULL. */
gw_event_buffer *gw_last_buffer(gw_recording *recording);
gw_event_buffer *gw_buffer_before(const gw_event_buffer *buffer);
int64_t gw_buffer_thread(const gw_event_buffer *buffer); /* the thread id of the system */
const char *gw_buffer_name(const gw_event_buffer *buffer);
int64_t gw_buffer_count(const gw_event_buffer *buffer);
int64_t gw_buffer_lost(const gw_event_buffer *buffer);
/* Copies events [first, end), which must exist. */
void gw_buffer_copy(const gw_event_buffer *buffer, int64_t first, int64_t end, gw_event *to);
/* The number of events that were dropped because there was no memory for a buffer. */
int64_t gw_recording_lost(const gw_recording *recording);

void gw_events_after_fork(void);
