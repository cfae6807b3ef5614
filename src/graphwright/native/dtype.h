/* Element types by the names that packages have for them. */
#pragma once
#include <stdbool.h>

#include "include/graphwright.h"

/* False for a type that tensors of this interface have not: texts, sequences, maps, optionals. */
bool dtype_named(const char *name, gw_dtype *dtype);
