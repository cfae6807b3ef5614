/* Element types by their names in packages. */
#pragma once
#include <stdbool.h>

#include "include/graphwright.h"

/* Returns false for types that the C interface does not support: strings, sequences, maps, optionals. */
bool dtype_named(const char *name, gw_dtype *dtype);
