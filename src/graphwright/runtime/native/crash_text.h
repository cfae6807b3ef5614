/* Text to a file descriptor, by nothing but what a signal handler may call. */
#pragma once
#include <stdint.h>

enum { GW_CRASH_LINE = 256 };

typedef struct {
    int file;
    int fault; /* errno of the first write that failed; 0: none has */
    int used;
    char text[GW_CRASH_LINE];
} gw_crash_text;

void gw_put(gw_crash_text *to, const char *text);
void gw_put_number(gw_crash_text *to, int64_t number);
void gw_put_address(gw_crash_text *to, const void *address);
/* What errno means, in words. */
void gw_put_fault(gw_crash_text *to, int fault);
/* `text`, in which "\1aN;" stands for args[N], and "\1rN;" for registers[N]. */
void gw_put_filled(gw_crash_text *to, const char *text, const int64_t *args, int64_t arg_count,
                   const int64_t *registers, int64_t register_count);
void gw_flush(gw_crash_text *to);

/* Writes it all; 0, or errno. Memory that cannot be read gives EFAULT, no signal. */
int gw_write_all(int file, const void *data, int64_t bytes);
