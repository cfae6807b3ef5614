#include "crash_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_NAME = 64, MOST_FOLDERS = 10000, COPIED = 1 << 16, PRIVATE_FOLDER = 0700, PRIVATE_FILE = 0600 };
static const char MODEL[] = "model.om", REPORT[] = "report.txt";

/* A folder that is being written: it has a temporary name until it is complete. */
typedef struct {
    const gw_crash_run *run;
    int parent, folder;
    char name[MOST_NAME], partial[MOST_NAME];
    const char *at; /* the file being written, or NULL */
} writer;

static char *append(char *to, const char *text) {
    while (*text)
        *to++ = *text++;
    *to = 0;
    return to;
}

static char *append_number(char *to, int64_t number) {
    if (number >= 10)
        to = append_number(to, number / 10);
    *to++ = (char)('0' + number % 10);
    *to = 0;
    return to;
}

static void set_name(writer *w, int number) {
    append_number(append(append_number(append(w->name, "crash-"), getpid()), "-"), number);
}

/* Finds a number for a new folder: existing folders are never used. */
static int make_folder(writer *w) {
    for (int number = 1; number < MOST_FOLDERS; number++) {
        struct stat found;
        set_name(w, number);
        if (fstatat(w->parent, w->name, &found, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        append(append(append(w->partial, "."), w->name), ".partial");
        if (mkdirat(w->parent, w->partial, PRIVATE_FOLDER) == 0)
            return 0;
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

static int open_file(writer *w, const char *name) {
    w->at = name;
    return openat(w->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, PRIVATE_FILE);
}

/* Closes the file. Returns 0, or errno of the first write that failed or of closing. */
static int close_file(int file, int fault) {
    if (close(file) != 0 && !fault && errno != EINTR)
        fault = errno;
    return fault;
}

/* Memory that cannot be read is written as 0 and mentioned in the report. */
static int write_file(writer *w, const gw_crash_file *from, gw_crash_text *report) {
    const int file = open_file(w, from->name);
    if (file < 0)
        return errno;
    int fault = gw_write_all(file, from->head, from->head_bytes);
    if (!fault)
        fault = gw_write_all(file, from->data, from->data_bytes);
    if (fault == EFAULT) {
        fault = ftruncate(file, from->head_bytes + from->data_bytes) == 0 ? 0 : errno;
        gw_put(report, "  not readable: a part of ");
        gw_put(report, from->name);
        gw_put(report, ", which is 0 there\n");
    }
    return close_file(file, fault);
}

static int copy_bytes(int from, int to) {
    static char bytes[COPIED];
    for (;;) {
        const ssize_t count = read(from, bytes, sizeof bytes);
        if (count == 0)
            return 0;
        if (count < 0 && errno != EINTR)
            return errno;
        const int fault = count > 0 ? gw_write_all(to, bytes, count) : 0;
        if (fault)
            return fault;
    }
}

/* Makes a hard link to the file, or a copy if the file system does not support links. */
static int add_model(writer *w) {
    w->at = MODEL;
    if (linkat(w->parent, w->run->model, w->folder, MODEL, 0) == 0)
        return 0;
    const int from = openat(w->parent, w->run->model, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return errno;
    const int to = open_file(w, MODEL);
    const int fault = to < 0 ? errno : close_file(to, copy_bytes(from, to));
    close(from);
    return fault;
}

static int add_files(writer *w, void (*write_report)(gw_crash_text *, const void *), const void *data) {
    gw_crash_text report = {.file = open_file(w, REPORT)};
    if (report.file < 0)
        return errno;
    write_report(&report, data);
    int fault = add_model(w);
    for (int64_t i = 0; i < w->run->file_count && !fault; i++)
        fault = write_file(w, &w->run->files[i], &report);
    gw_put(&report, w->run->advice);
    gw_flush(&report);
    if (!fault && report.fault)
        w->at = REPORT;
    return close_file(report.file, fault ? fault : report.fault);
}

static int finish(writer *w) {
    w->at = NULL;
    for (int number = 1; renameat(w->parent, w->partial, w->parent, w->name) != 0; number++) {
        if ((errno != EEXIST && errno != ENOTEMPTY) || number == MOST_FOLDERS)
            return errno;
        set_name(w, number); /* another process has just taken the number */
    }
    return 0;
}

static void remove_files(writer *w) {
    unlinkat(w->folder, MODEL, 0);
    unlinkat(w->folder, REPORT, 0);
    for (int64_t i = 0; i < w->run->file_count; i++)
        unlinkat(w->folder, w->run->files[i].name, 0);
}

static int write_folder(writer *w, void (*report)(gw_crash_text *, const void *), const void *data) {
    int fault = make_folder(w);
    if (fault)
        return fault;
    w->folder = openat(w->parent, w->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->folder < 0) {
        fault = errno;
    } else {
        fault = add_files(w, report, data);
        if (!fault)
            fault = finish(w);
        if (fault)
            remove_files(w);
        close(w->folder);
    }
    if (fault)
        unlinkat(w->parent, w->partial, AT_REMOVEDIR);
    return fault;
}

void gw_write_crash_folder(const gw_crash_run *run, void (*report)(gw_crash_text *to, const void *data),
                           const void *data, gw_crash_text *console) {
    writer w = {.run = run, .parent = open(run->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    const int fault = w.parent < 0 ? errno : write_folder(&w, report, data);
    if (w.parent >= 0)
        close(w.parent);
    gw_put(console, fault ? "graphwright: no crash folder in " : "graphwright: wrote ");
    gw_put(console, run->folder);
    if (fault) {
        gw_put(console, ": ");
        gw_put_fault(console, fault);
        if (w.at) {
            gw_put(console, ", at ");
            gw_put(console, w.at);
        }
        gw_put(console, "\n");
    } else {
        gw_put(console, "/");
        gw_put(console, w.name);
        gw_put(console, ": repro.py in it runs this again\n");
    }
    gw_flush(console);
}
