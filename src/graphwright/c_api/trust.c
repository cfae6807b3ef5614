#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sha256.h"

enum { KEY_BYTES = 32, LONGEST_KEY = 4096 };

typedef struct key {
    struct key *next;
    size_t size;
    unsigned char bytes[];
} key;

struct gw_options {
    bool trust;
    key *keys;
};

static const gw_options trusting = {.trust = true};
const gw_options *const trust_all = &trusting;

/* ---- options ---- */

gw_status gw_options_create(gw_options **options) {
    if (!options)
        return fail(GW_STATUS_ARGUMENT, "options: NULL");
    *options = calloc(1, sizeof **options);
    return *options ? GW_STATUS_OK : fail_memory();
}

void gw_options_destroy(gw_options *options) {
    while (options && options->keys) {
        key *next = options->keys->next;
        explicit_bzero(options->keys->bytes, options->keys->size);
        free(options->keys);
        options->keys = next;
    }
    free(options);
}

gw_status gw_options_set_trust(gw_options *options, int trust) {
    if (!options)
        return fail(GW_STATUS_ARGUMENT, "options: NULL");
    options->trust = trust != 0;
    return GW_STATUS_OK;
}

gw_status gw_options_add_key(gw_options *options, const void *bytes, size_t size) {
    if (!options || !bytes)
        return fail(GW_STATUS_ARGUMENT, "options or key: NULL");
    if (size < KEY_BYTES || size > LONGEST_KEY)
        return fail(GW_STATUS_ARGUMENT,
                    "a key must have at least %d bytes, not %zu: a shorter one can be guessed", KEY_BYTES,
                    size);
    key *added = malloc(sizeof *added + size);
    if (!added)
        return fail_memory();
    added->size = size;
    memcpy(added->bytes, bytes, size);
    added->next = options->keys;
    options->keys = added;
    return GW_STATUS_OK;
}

/* Up to `most` bytes of a file. */
static size_t read_all(int file, unsigned char *bytes, size_t most) {
    size_t size = 0;
    for (ssize_t count = 1; count != 0 && size < most; size += (size_t)(count > 0 ? count : 0)) {
        count = read(file, bytes + size, most - size);
        if (count < 0 && errno != EINTR)
            return 0;
    }
    return size;
}

gw_status gw_options_add_key_file(gw_options *options, const char *path) {
    unsigned char bytes[LONGEST_KEY + 1];
    if (!options || !path)
        return fail(GW_STATUS_ARGUMENT, "options or path: NULL");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail(GW_STATUS_FILE, "the key %s cannot be read: %s", path, strerror(errno));
    size_t size = read_all(file, bytes, sizeof bytes);
    close(file);
    gw_status status =
        size >= KEY_BYTES && size <= LONGEST_KEY
            ? gw_options_add_key(options, bytes, size)
            : fail(GW_STATUS_FILE, "%s does not contain a key of %d bytes or more", path, KEY_BYTES);
    explicit_bzero(bytes, sizeof bytes);
    return status;
}

/* ---- this user's key ---- */

static bool user_home(char *home, size_t size) {
    const char *given = secure_getenv("HOME");
    char buffer[4096];
    struct passwd entry, *found = NULL;
    if (!given || !*given) {
        if (getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found) != 0 || !found)
            return false;
        given = entry.pw_dir;
    }
    return snprintf(home, size, "%s", given) < (int)size;
}

/* The path of the key of this user, as in config.py. Returns false if the user has no home folder or the path
   is too long. */
static bool key_path(char *path, size_t size) {
    const char *folder = secure_getenv("GRAPHWRIGHT_KEY_DIR");
    if (folder && *folder)
        return snprintf(path, size, "%s/signing.key", folder) < (int)size;
    const char *settings = secure_getenv("XDG_CONFIG_HOME");
    if (settings && *settings == '/') /* XDG Base Directory Specification 0.8: relative paths are ignored */
        return snprintf(path, size, "%s/graphwright/signing.key", settings) < (int)size;
    char home[PATH_MAX];
    return user_home(home, sizeof home) &&
           snprintf(path, size, "%s/.config/graphwright/signing.key", home) < (int)size;
}

static gw_status unsafe(const char *path, const char *reason) {
    return fail(GW_STATUS_UNTRUSTED, "the signing key is not usable: %s: %s (remove it)", path, reason);
}

static gw_status check_key_file(int file, const char *path) {
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
        return unsafe(path, "it is not a file");
    if (status.st_uid != getuid() || (status.st_mode & 077) != 0)
        return unsafe(path, "it belongs to another user or others may read it");
    return GW_STATUS_OK;
}

/* `found` is false if there is none. */
static gw_status user_key(unsigned char bytes[KEY_BYTES], bool *found) {
    char path[PATH_MAX];
    unsigned char read[KEY_BYTES + 1];
    *found = false;
    errno = 0;
    int file = key_path(path, sizeof path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (file < 0)
        return errno == ELOOP ? unsafe(path, "it is a link") : GW_STATUS_OK;
    gw_status status = check_key_file(file, path);
    if (status == GW_STATUS_OK && read_all(file, read, sizeof read) != KEY_BYTES)
        status = unsafe(path, "it does not have 32 bytes");
    close(file);
    if (status == GW_STATUS_OK)
        memcpy(bytes, read, KEY_BYTES);
    *found = status == GW_STATUS_OK;
    return status;
}

/* ---- signatures ---- */

typedef struct {
    const char *manifest, *signature;
    size_t size, signature_size;
} signed_text;

static bool signed_by(const signed_text *text, const void *bytes, size_t size) {
    unsigned char digest[SHA256_BYTES];
    hmac_sha256(bytes, size, text->manifest, text->size, digest);
    return sha256_is(digest, text->signature, text->signature_size);
}

gw_status trust_decide(const gw_options *options, const char *manifest, size_t size, const char *signature,
                       size_t signature_size, bool *trusted) {
    const signed_text text = {manifest, signature, size, signature_size};
    unsigned char own[KEY_BYTES];
    bool has_own;
    *trusted = options && options->trust;
    if (*trusted || signature_size == 0)
        return GW_STATUS_OK;
    for (const key *each = options ? options->keys : NULL; each; each = each->next)
        *trusted = *trusted || signed_by(&text, each->bytes, each->size);
    if (*trusted)
        return GW_STATUS_OK;
    TRY(user_key(own, &has_own));
    *trusted = has_own && signed_by(&text, own, sizeof own);
    explicit_bzero(own, sizeof own);
    return GW_STATUS_OK;
}
