#include "embedded.h"

#include <pthread.h>

#include "loader.h"
#include "sha256.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static gw_error fault;
static bool is_present;

/* The own address is that of a function which another library cannot replace. */
static void find_contents(void) {
    is_present = gw_contents_open((const void *)(uintptr_t)find_contents, &fault);
}

bool embedded_is_present(void) {
    pthread_once(&once, find_contents);
    return is_present;
}

/* At load, because the path of the file may be relative, and the file may be replaced later. */
__attribute__((constructor)) static void find_at_load(void) { embedded_is_present(); }

gw_status embedded_package(gw_part *package) {
    if (!embedded_is_present())
        return fail(GW_STATUS_PACKAGE,
                    "this library contains no model: %s. Load one that graph-autofusion --standalone wrote, "
                    "copied completely, or open a package with gw_open",
                    fault.text);
    *package = gw_contents_part("", "model", ".om");
    return package->data ? GW_STATUS_OK
                         : fail(GW_STATUS_PACKAGE, "%s: its list of contents is damaged: copy the file again",
                                gw_contents_path());
}

void *embedded_kernels(const char *isa, gw_error *error) {
    gw_part code = gw_contents_part(isa, "kernels", ".so"),
            hash = gw_contents_part(isa, "kernels", ".sha256");
    unsigned char digest[SHA256_BYTES];
    if (!code.data && !hash.data) {
        gw_fail(error, GW_E_LOAD, "it was written without kernels for %s: write it without --isa", isa);
        return NULL;
    }
    sha256_of(code.data, code.size, digest);
    if (hash.data && sha256_is(digest, hash.data, hash.size))
        return gw_load_memory(code.data, code.size, error);
    gw_fail(error, GW_E_LOAD, "its kernels were changed after they were written: copy the file again");
    return NULL;
}
