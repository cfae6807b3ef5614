/* What went wrong in a call of the interface: its status, and the text that the thread keeps. */
#pragma once
#include "error.h"
#include "include/graphwright.h"

/* Keeps the text for gw_error_text; always `status`, so that a caller returns it. */
gw_status fail(gw_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
gw_status fail_memory(void);
/* The status for what the runtime reports, whose text is kept behind `what`. */
gw_status fail_runtime(const char *what, const gw_error *error);

/* Returns the status of a call that failed from the function that makes it. */
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        gw_status tried = (call);                                                                            \
        if (tried != GW_STATUS_OK)                                                                           \
            return tried;                                                                                    \
    } while (0)
