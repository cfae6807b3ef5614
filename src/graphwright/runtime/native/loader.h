/* Loads shared objects from memory or from files. */
#pragma once
#include <stddef.h>

#include "error.h"

/* A handle for gw_symbol and gw_unload, or NULL. */
void *gw_load_memory(const void *data, size_t size, gw_error *error);
void *gw_load_file(const char *path, gw_error *error);
void *gw_symbol(void *handle, const char *name);
void gw_unload(void *handle);
