/* The parts that a library carries behind its code: named bytes, for which it maps its own file. */
#pragma once
#include "error.h"
#include <stddef.h>

typedef struct {
    const char *data; /* NULL: there is no such part */
    size_t size;
} gw_part;

/* Maps the file that holds the function at `address`. Once it is mapped, later calls do nothing. */
bool gw_contents_open(const void *address, gw_error *error);
/* The path of the mapped file, as it was loaded. */
const char *gw_contents_path(void);
/* The part called `folder`/`name``ending`, where `folder` may be empty. */
gw_part gw_contents_part(const char *folder, const char *name, const char *ending);
/* Frees the memory of pages that were read; later reads fetch them again. */
void gw_contents_release(void);
/* Unmaps the file. */
void gw_contents_close(void);
