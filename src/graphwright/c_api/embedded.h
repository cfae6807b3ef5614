/* The model that a standalone library contains behind its code, and the kernels for it. Such a library is
   native code that the user chose to load, so both are trusted. */
#pragma once
#include "contents.h"
#include "failure.h"

/* Whether this library is standalone: a model was found in it when it was loaded. */
bool embedded_is_present(void);
/* The embedded package. Fails if there is none. */
gw_status embedded_package(gw_part *package);
/* Loads the embedded library of kernels for `isa`; NULL if there is none. */
void *embedded_kernels(const char *isa, gw_error *error);
