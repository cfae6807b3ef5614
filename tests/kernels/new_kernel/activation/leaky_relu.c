/* Leaky relu: see leaky_relu.py. */

#include "library/sizes.h"

#include "activation/leaky_relu.gen.h"

GW_KERNEL(gw_leaky_relu_f32) {
    (void)scratch;
    const struct leaky_relu_args *a = leaky_relu_args(arg);
    const float *x = buf[LEAKY_RELU_X];
    float *y = buf[LEAKY_RELU_Y], alpha;
    memcpy(&alpha, &a->alpha, sizeof alpha);
    const int64_t last = smaller(end * CHUNK, a->elements);
    for (int64_t i = begin * CHUNK; i < last; i += VL) {
        const int64_t n = smaller(last - i, VL);
        const vf value = vf_load_n(x + i, n);
        vf_store_n(y + i, vf_select(value < 0, alpha * value, value), n);
    }
    return 0;
}
