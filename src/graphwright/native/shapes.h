/* Sizes that callers give. */
#pragma once
#include "package.h"

/* The sizes of a tensor of `info`: those of `shape`, or where it is NULL those that the model knows. Fails,
   and calls it `what`, where they do not fit, or `bytes` is another size. */
gw_status shape_given(const gw_tensor_info *info, const char *what, const int64_t *shape, int rank,
                      size_t bytes, int64_t *sizes);
