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

const char *gw_kernel_fault(int64_t code) {
    static const char *const reasons[] = {NULL, "an index is out of range", "it does not support these sizes",
                                          "it would access memory outside its operands"};
    bool is_known = code > 0 && code < (int64_t)(sizeof reasons / sizeof *reasons);
    return is_known ? reasons[code] : "the kernel failed";
}

void gw_fault_range(const gw_error *error, char *text, size_t size) {
    const int64_t *details = error->details;
    if (size > 0)
        text[0] = 0;
    if (error->kind == GW_E_KERNEL && details[1] <= details[2])
        snprintf(text, size, ": %lld, which must be from %lld to %lld", (long long)details[0],
                 (long long)details[1], (long long)details[2]);
}
