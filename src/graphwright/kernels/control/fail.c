/* Ends a run that cannot go on: see fail.py. */

#include "control/fail.gen.h"

GW_KERNEL(gw_fail) {
    (void)buf, (void)arg, (void)begin, (void)end, (void)scratch;
    return CANNOT_RUN;
}

GW_KERNEL(gw_require_equal) {
    (void)buf, (void)begin, (void)end, (void)scratch;
    return require_args(arg)->left == require_args(arg)->right ? 0 : CANNOT_RUN;
}

GW_KERNEL(gw_require_at_most) {
    (void)buf, (void)begin, (void)end, (void)scratch;
    return require_args(arg)->left <= require_args(arg)->right ? 0 : CANNOT_RUN;
}
