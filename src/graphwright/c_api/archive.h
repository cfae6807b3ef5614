/* Reads the zip archives that package/write_archive.py writes, as strictly as package/zip_directory.py:
   uncompressed members, aligned to 64 bytes, with plain names. A file is untrusted input and may change while
   it is read: every byte is read once, so the bytes that were checked are the bytes that are used. */
#pragma once
#include <stdint.h>

#include "failure.h"
#include "blocks.h"

typedef struct {
    const char *name;
    uint64_t start, size; /* of its content in the archive, in bytes */
} member;

typedef struct {
    const char *where;  /* its name in errors */
    int file;           /* -1 if the archive is in memory */
    const char *memory; /* the archive, or NULL if it is a file */
    uint64_t size;
    member *members; /* sorted by name */
    size_t count;
    pool names;
} archive;

/* Opens an archive. The caller closes it also when this fails. */
gw_status archive_open_file(archive *a, const char *path);
/* `data` must stay valid until the archive is closed; `where` is its name in errors. */
gw_status archive_open_memory(archive *a, const char *where, const void *data, size_t size);
void archive_close(archive *a);

/* The member of that name, or NULL. */
const member *archive_find(const archive *a, const char *name);
/* Reads a member into new memory. */
gw_status archive_read(const archive *a, const member *m, block *content);

/* Reports that the archive is not a valid package, for this reason. */
gw_status archive_damaged(const archive *a, const char *reason);
