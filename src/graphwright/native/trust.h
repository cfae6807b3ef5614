/* Whose packages run: as package/sign.py decides it. */
#pragma once
#include <stdbool.h>

#include "failure.h"

/* Whether the options trust everyone, or a key that is trusted signed the manifest. Fails where the user's
   own key may be known to others. `options` may be NULL. */
gw_status trust_decide(const gw_options *options, const char *manifest, size_t size, const char *signature,
                       size_t signature_size, bool *trusted);
