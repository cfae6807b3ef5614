/* Reads the zip archives that package/archiver.py writes, as strictly as package/archive.py: stored members,
   aligned to 64 bytes, of plain names. Files may hold anything, and may change while they are read: every
   byte is read once, and what was checked is what is used. */
#pragma once
#include <stdint.h>

#include "failure.h"
#include "blocks.h"

typedef struct {
    const char *name;
    uint64_t start, size; /* of its bytes */
} member;

typedef struct {
    const char *where;  /* what errors call it */
    int file;           /* or -1: */
    const char *memory; /* it is here */
    uint64_t size;
    member *members; /* by name */
    size_t count;
    pool names;
} archive;

/* Close it whether it could be opened or not. */
gw_status archive_open_file(archive *a, const char *path);
/* The memory must stay until it is closed. */
gw_status archive_open_memory(archive *a, const void *data, size_t size);
void archive_close(archive *a);

/* NULL if there is none. */
const member *archive_find(const archive *a, const char *name);
/* Its bytes, in new memory. */
gw_status archive_read(const archive *a, const member *m, block *content);

/* That the archive is no valid package: the reason, and what to do. */
gw_status archive_damaged(const archive *a, const char *reason);
