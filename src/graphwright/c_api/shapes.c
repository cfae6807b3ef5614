#include "shapes.h"

#include <inttypes.h>

static gw_status known_sizes(const gw_tensor_info *info, const char *what, int64_t *sizes) {
    for (int axis = 0; axis < info->rank; axis++) {
        if (info->sizes[axis] < 0)
            return fail(GW_STATUS_SHAPE, "axis %d of %s '%s' is dynamic (%s): give its sizes", axis, what,
                        info->name, info->symbols[axis]);
        sizes[axis] = info->sizes[axis];
    }
    return info->rank >= 0 ? GW_STATUS_OK
                           : fail(GW_STATUS_SHAPE, "%s '%s' has no rank: give its sizes", what, info->name);
}

static gw_status given_sizes(const gw_tensor_info *info, const char *what, const int64_t *shape, int rank,
                             int64_t *sizes) {
    if (info->rank < 0 && (rank < 0 || rank > GW_MAX_RANK))
        return fail(GW_STATUS_SHAPE, "%s '%s' must have a rank from 0 to %d, but has rank %d", what,
                    info->name, GW_MAX_RANK, rank);
    if (info->rank >= 0 && rank != info->rank)
        return fail(GW_STATUS_SHAPE, "%s '%s' must have rank %d, but has rank %d", what, info->name,
                    info->rank, rank);
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0)
            return fail(GW_STATUS_SHAPE, "axis %d of %s '%s' is %" PRId64 ", which is not a valid size", axis,
                        what, info->name, shape[axis]);
        if (info->rank >= 0 && info->sizes[axis] >= 0 && info->sizes[axis] != shape[axis])
            return fail(GW_STATUS_SHAPE, "axis %d of %s '%s' must be %" PRId64 ", but is %" PRId64, axis,
                        what, info->name, info->sizes[axis], shape[axis]);
        sizes[axis] = shape[axis];
    }
    return GW_STATUS_OK;
}

gw_status shape_given(const gw_tensor_info *info, const char *what, const int64_t *shape, int rank,
                      size_t bytes, int64_t *sizes) {
    size_t needed = gw_dtype_bytes(info->dtype);
    bool overflows = false;
    TRY(shape ? given_sizes(info, what, shape, rank, sizes) : known_sizes(info, what, sizes));
    for (int axis = 0; axis < (shape ? rank : info->rank); axis++)
        overflows |= __builtin_mul_overflow(needed, (size_t)sizes[axis], &needed);
    if (!overflows && needed == bytes)
        return GW_STATUS_OK;
    if (overflows)
        return fail(GW_STATUS_SHAPE, "%s '%s' of these sizes is too large for any memory", what, info->name);
    return fail(GW_STATUS_ARGUMENT, "%s '%s' of these sizes has %zu bytes, %zu are given", what, info->name,
                needed, bytes);
}
