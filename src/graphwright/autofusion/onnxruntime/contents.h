/* What a library carries behind its code: parts with names, which the file itself is mapped for. */
#pragma once
#include "error.h"
#include <stddef.h>

typedef struct {
    const char *data; /* NULL: there is no such part */
    size_t size;
} part;

/* Map the file that holds the function at `address`. Once; later calls give what the first one gave. */
bool contents_open(const void *address, gw_error *error);
/* The part called `folder`/`name``ending`, where `folder` may be empty. */
part contents_part(const char *folder, const char *name, const char *ending);
