/* Writes text to a file descriptor, with async-signal-safe functions only. */
#pragma once
#include <stdint.h>

enum { GW_CRASH_LINE = 256 };

typedef struct {
    int file;
    int fault; /* errno of the first write that failed, or 0 */
    int used;
    char text[GW_CRASH_LINE];
} gw_crash_text;

void gw_put(gw_crash_text *to, const char *text);
void gw_put_number(gw_crash_text *to, int64_t number);
void gw_put_address(gw_crash_text *to, const void *address);
/* What errno means, in words. */
void gw_put_fault(gw_crash_text *to, int fault);
/* Writes `text`, in which "\1aN;" is replaced by args[N] and "\1rN;" by registers[N]. */
void gw_put_filled(gw_crash_text *to, const char *text, const int64_t *args, int64_t arg_count,
                   const int64_t *registers, int64_t register_count);
void gw_flush(gw_crash_text *to);

/* Writes all bytes. Returns 0 or errno. Unreadable memory gives EFAULT instead of a signal. */
int gw_write_all(int file, const void *data, int64_t bytes);
