#include "crash_text.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 26 };

int gw_write_all(int file, const void *data, int64_t bytes) {
    const char *from = data;
    while (bytes > 0) {
        const ssize_t written = write(file, from, (size_t)(bytes < MOST_BYTES ? bytes : MOST_BYTES));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? errno : EIO;
        from += written, bytes -= written;
    }
    return 0;
}

void gw_flush(gw_crash_text *to) {
    const int fault = gw_write_all(to->file, to->text, to->used);
    to->fault = to->fault ? to->fault : fault;
    to->used = 0;
}

static void put_character(gw_crash_text *to, char character) {
    if (to->used == GW_CRASH_LINE)
        gw_flush(to);
    to->text[to->used++] = character;
}

void gw_put(gw_crash_text *to, const char *text) {
    for (; *text; text++)
        put_character(to, *text);
}

static void put_unsigned(gw_crash_text *to, uint64_t number, unsigned base) {
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = 0;
    do
        digits[--at] = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    gw_put(to, digits + at);
}

void gw_put_number(gw_crash_text *to, int64_t number) {
    if (number < 0)
        gw_put(to, "-");
    put_unsigned(to, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10);
}

void gw_put_address(gw_crash_text *to, const void *address) {
    gw_put(to, "0x");
    put_unsigned(to, (uint64_t)(uintptr_t)address, 16);
}

void gw_put_fault(gw_crash_text *to, int fault) {
    static const struct {
        int number;
        const char *text;
    } known[] = {{EACCES, "permission denied"},
                 {EPERM, "operation not permitted"},
                 {ENOENT, "no such file or folder"},
                 {ENOTDIR, "not a folder"},
                 {ENOSPC, "no space left on the device"},
                 {EDQUOT, "the disk quota is spent"},
                 {EFBIG, "file too large"},
                 {EROFS, "read-only file system"},
                 {EMFILE, "too many open files"},
                 {ENFILE, "too many open files"},
                 {EIO, "input/output error"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == fault) {
            gw_put(to, known[i].text);
            return;
        }
    gw_put(to, "error ");
    gw_put_number(to, fault);
}

/* Reads the number at `text`, or -1 if it is not below `count`; returns the position after it. */
static const char *read_index(const char *text, int64_t count, int64_t *index) {
    *index = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        *index = *index >= 0 && *index < count ? *index * 10 + (*text - '0') : -1;
    if (*index >= count)
        *index = -1;
    return *text == ';' ? text + 1 : text;
}

void gw_put_filled(gw_crash_text *to, const char *text, const int64_t *args, int64_t arg_count,
                   const int64_t *registers, int64_t register_count) {
    while (*text) {
        if (*text != 1 || !text[1]) {
            put_character(to, *text++);
            continue;
        }
        const int is_arg = text[1] == 'a';
        int64_t index;
        text = read_index(text + 2, is_arg ? arg_count : register_count, &index);
        if (index < 0)
            gw_put(to, "?");
        else
            gw_put_number(to, is_arg ? args[index] : registers[index]);
    }
}
