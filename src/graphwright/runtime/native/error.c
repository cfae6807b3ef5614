#include "error.h"

#include <stdarg.h>
#include <stdio.h>

bool gw_fail(gw_error *error, gw_error_kind kind, const char *format, ...) {
    va_list values;
    error->kind = kind;
    va_start(values, format);
    vsnprintf(error->text, sizeof error->text, format, values);
    va_end(values);
    return false;
}

bool gw_fail_memory(gw_error *error) { return gw_fail(error, GW_E_MEMORY, "out of memory"); }
