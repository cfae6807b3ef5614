#include "contents.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file ends with a trailer: "graphwright", the offset of the index, a line feed. The index has a line for
   each part: its offset, its size in bytes, its name. */
enum { ENDING = 32, NAME = 256, LINE = 320 };

static struct {
    const char *data;
    size_t size;
    const char *path; /* as the dynamic linker reports it */
    size_t index;     /* its offset; 0 if the file has none */
} file;

static bool map_file(const char *path, gw_error *error) {
    struct stat status;
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0 || fstat(opened, &status) != 0)
        return gw_fail(error, GW_E_LOAD, "%s cannot be read", path);
    void *mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, opened, 0);
    close(opened);
    if (mapped == MAP_FAILED)
        return gw_fail(error, GW_E_LOAD, "%s cannot be mapped", path);
    file.data = mapped;
    file.size = (size_t)status.st_size;
    return true;
}

static bool read_index(const char *path, gw_error *error) {
    char ending[ENDING + 1] = {0};
    size_t start = 0;
    if (file.size > ENDING)
        memcpy(ending, file.data + file.size - ENDING, ENDING);
    if (sscanf(ending, "graphwright %zu", &start) != 1 || start == 0 || start > file.size - ENDING)
        return gw_fail(error, GW_E_LOAD, "%s has no parts behind its code, or they are damaged", path);
    file.index = start;
    return true;
}

bool gw_contents_open(const void *address, gw_error *error) {
    Dl_info found;
    if (file.index)
        return true;
    if (!dladdr(address, &found) || !found.dli_fname)
        return gw_fail(error, GW_E_LOAD, "the library's own file cannot be found");
    file.path = found.dli_fname;
    if (map_file(file.path, error) && read_index(file.path, error))
        return true;
    gw_contents_close();
    return false;
}

const char *gw_contents_path(void) { return file.path; }

/* Copies the line at `at` in the index; returns the address of the next line, or NULL at the end. */
static const char *read_line(const char *at, char line[LINE]) {
    const char *end = file.data + file.size - ENDING;
    size_t size = (size_t)(end - at), kept = size < LINE - 1 ? size : LINE - 1;
    if (size == 0)
        return NULL;
    const char *feed = memchr(at, '\n', size);
    kept = feed && (size_t)(feed - at) < kept ? (size_t)(feed - at) : kept;
    memcpy(line, at, kept);
    line[kept] = 0;
    return feed ? feed + 1 : end;
}

gw_part gw_contents_part(const char *folder, const char *name, const char *ending) {
    char wanted[NAME], held[NAME], line[LINE];
    size_t start, size;
    snprintf(wanted, sizeof wanted, "%s%s%s%s", folder, *folder ? "/" : "", name, ending);
    for (const char *at = file.data + file.index; file.index && (at = read_line(at, line));) {
        if (sscanf(line, "%zu %zu %255s", &start, &size, held) != 3)
            break; /* the index is damaged, or does not begin here */
        if (strcmp(held, wanted) == 0 && start <= file.size && size <= file.size - start)
            return (gw_part){file.data + start, size};
    }
    return (gw_part){NULL, 0};
}

void gw_contents_release(void) { madvise((void *)(uintptr_t)file.data, file.size, MADV_DONTNEED); }

void gw_contents_close(void) {
    if (file.data)
        munmap((void *)(uintptr_t)file.data, file.size);
    memset(&file, 0, sizeof file);
}
