#include "contents.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file ends with where its index begins: "graphwright", the number, a line feed. The index has a line for
   each part: where it begins, its bytes, its name. */
enum { ENDING = 32, NAME = 256 };

static struct {
    const char *data;
    size_t size;
    char *index; /* ends with 0 */
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
    if (sscanf(ending, "graphwright %zu", &start) != 1 || start > file.size - ENDING)
        return gw_fail(error, GW_E_LOAD, "%s has no operators behind its code: it is damaged", path);
    file.index = strndup(file.data + start, file.size - ENDING - start);
    return file.index || gw_fail_memory(error);
}

bool contents_open(const void *address, gw_error *error) {
    Dl_info found;
    if (file.index)
        return true;
    if (!dladdr(address, &found) || !found.dli_fname)
        return gw_fail(error, GW_E_LOAD, "the library's own file cannot be found");
    return (file.data || map_file(found.dli_fname, error)) && read_index(found.dli_fname, error);
}

part contents_part(const char *folder, const char *name, const char *ending) {
    char wanted[NAME], held[NAME];
    size_t start, size;
    snprintf(wanted, sizeof wanted, "%s%s%s%s", folder, *folder ? "/" : "", name, ending);
    for (const char *line = file.index; line && *line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (sscanf(line, "%zu %zu %255s", &start, &size, held) == 3 && strcmp(held, wanted) == 0 &&
            start <= file.size && size <= file.size - start)
            return (part){file.data + start, size};
    return (part){NULL, 0};
}

__attribute__((destructor)) static void close_file(void) {
    free(file.index);
    if (file.data)
        munmap((void *)(uintptr_t)file.data, file.size);
}
