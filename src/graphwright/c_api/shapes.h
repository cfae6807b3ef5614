/* Shapes of tensors that callers pass. */
#pragma once
#include "package.h"

/* Writes the shape of a tensor to `sizes`: `shape`, or if that is NULL the shape of `info`. Fails if it does
   not match `info` or is not of `bytes` bytes; errors call the tensor `what`. */
gw_status shape_given(const gw_tensor_info *info, const char *what, const int64_t *shape, int rank,
                      size_t bytes, int64_t *sizes);
