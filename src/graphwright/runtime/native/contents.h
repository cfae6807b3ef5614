/* Named blocks of bytes ("parts") that are appended to the file of a shared library, which maps its own file
   to read them. */
#pragma once
#include "error.h"
#include <stddef.h>

typedef struct {
    const char *data; /* NULL if there is no such part */
    size_t size;
} gw_part;

/* Maps the file that holds the function at `address`. Once it is mapped, later calls do nothing. */
bool gw_contents_open(const void *address, gw_error *error);
/* The path from which the library was loaded. */
const char *gw_contents_path(void);
/* The part called `folder`/`name``ending`, where `folder` may be empty. */
gw_part gw_contents_part(const char *folder, const char *name, const char *ending);
/* Releases the pages that were read; later reads load them from the file again. */
void gw_contents_release(void);
/* Unmaps the file. */
void gw_contents_close(void);
