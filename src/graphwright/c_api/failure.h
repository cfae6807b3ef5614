/* Errors of calls of the interface: a status, and a text that is kept for each thread. */
#pragma once
#include "error.h"
#include "include/graphwright.h"

/* Keeps the text for gw_error_text and returns `status`. */
gw_status fail(gw_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
gw_status fail_memory(void);
/* The status for an error of the runtime; keeps its text with the prefix `what`. */
gw_status fail_runtime(const char *what, const gw_error *error);

/* Returns from the calling function with the status of a call that fails. */
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        gw_status tried = (call);                                                                            \
        if (tried != GW_STATUS_OK)                                                                           \
            return tried;                                                                                    \
    } while (0)
