#include "loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u /* Linux 6.3: requests an executable file if that is not the default */
#endif

static void *open_object(const char *path, gw_error *error) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        gw_fail(error, GW_E_LOAD, "the shared object cannot be loaded: %s", dlerror());
    return handle;
}

static int memory_file(void) {
    int file = memfd_create("graphwright", MFD_CLOEXEC | MFD_EXEC);
    return file >= 0 || errno != EINVAL ? file : memfd_create("graphwright", MFD_CLOEXEC);
}

static bool write_all(int file, const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(file, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        size -= (size_t)written;
    }
    return true;
}

/* glibc identifies loaded objects by their paths, and numbers of file descriptors are reused. So each load
   spells its path differently: one '/' or '/.' for each bit of a serial number and of the address of the
   serial number, which distinguishes several copies of this runtime in a process. */
static void own_path(char *path, size_t size, int file) {
    static atomic_uint serial;
    size_t end = (size_t)snprintf(path, size, "/proc/self/fd");
    const uint64_t numbers[] = {(uintptr_t)&serial, atomic_fetch_add(&serial, 1)};
    for (int i = 0; i < 2; i++)
        for (uint64_t bits = numbers[i]; bits > 0; bits >>= 1)
            end += (size_t)snprintf(path + end, size - end, "%s", bits & 1 ? "/." : "/");
    snprintf(path + end, size - end, "/%d", file);
}

void *gw_load_memory(const void *data, size_t size, gw_error *error) {
    char path[256];
    void *handle = NULL;
    int file = memory_file();
    if (file < 0) {
        gw_fail(error, GW_E_MEMORY, "no file in memory for a shared object: %s", strerror(errno));
        return NULL;
    }
    own_path(path, sizeof path, file);
    if (write_all(file, data, size))
        handle = open_object(path, error);
    else
        gw_fail(error, GW_E_MEMORY, "a shared object of %zu bytes cannot be written to memory: %s", size,
                strerror(errno));
    close(file);
    return handle;
}

void *gw_load_file(const char *path, gw_error *error) { return open_object(path, error); }

void *gw_symbol(void *handle, const char *name) { return dlsym(handle, name); }

void gw_unload(void *handle) { dlclose(handle); }
