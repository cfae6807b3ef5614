/* Reads the words of an encoded program. */
#pragma once
#include <stdlib.h>

#include "program.h"

/* Reads words in order. After the first error, all reads return 0. */
typedef struct {
    const int64_t *words;
    int64_t at, count;
    gw_error *error;
    bool failed;
} reader;

static inline bool fault(reader *r, const char *what) {
    if (!r->failed)
        gw_fail(r->error, GW_E_PROGRAM, "the encoded program is malformed at word %lld: %s",
                (long long)r->at - 1, what);
    r->failed = true;
    return false;
}

static inline bool need(reader *r, bool holds, const char *what) { return holds || fault(r, what); }

static inline int64_t next(reader *r) {
    if (r->failed || r->at >= r->count) {
        r->at++;
        fault(r, "the data ends in the middle of a record");
        return 0;
    }
    return r->words[r->at++];
}

/* Reads a word in [low, high). */
static inline int64_t next_in(reader *r, int64_t low, int64_t high, const char *what) {
    int64_t word = next(r);
    return need(r, !r->failed && word >= low && word < high, what) ? word : 0;
}

/* Reads a number of elements of at least `words` words each: bounded by the remaining data, which also bounds
   all memory. */
static inline int64_t next_count(reader *r, int64_t words) {
    int64_t count = next(r);
    bool fits = !r->failed && count >= 0 && count <= (r->count - r->at) / words;
    return need(r, fits, "a count exceeds the remaining data") ? count : 0;
}

static inline gw_list next_list(reader *r, int64_t low, int64_t high, const char *what) {
    gw_list list = {next_count(r, 1), r->words + r->at};
    for (int64_t i = 0; i < list.count && !r->failed; i++)
        next_in(r, low, high, what);
    return r->failed ? (gw_list){0} : list;
}

static inline void *table(reader *r, int64_t count, size_t size) {
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (!memory && !r->failed) {
        gw_fail_memory(r->error);
        r->failed = true;
    }
    return memory;
}
