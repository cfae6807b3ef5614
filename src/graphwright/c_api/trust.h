/* Decides whether the kernels of a package may run, as package/sign.py does. */
#pragma once
#include <stdbool.h>

#include "failure.h"

/* Options that trust every package. */
extern const gw_options *const trust_all;

/* Whether the options trust every package, or a trusted key signed the manifest. Fails if other users can
   read the key of this user. `options` may be NULL. */
gw_status trust_decide(const gw_options *options, const char *manifest, size_t size, const char *signature,
                       size_t signature_size, bool *trusted);
