/* A row of a transposed convolution by phase, the remainder of its columns modulo the stride. */

#ifndef GW_PHASES_H
#define GW_PHASES_H

#include "library/lanes.h"

/* `stride` phases of `length` elements, whole vectors; they begin `apart` elements apart. */
struct phases {
    const float *first;
    int64_t apart, length, stride;
};

/* Interleaves the phases: to[i * stride + phase] = phase[i] + bias, then relu. */
GW_INLINE void interleave_phases(struct phases p, float bias, int relu, float *to) {
    if (p.stride > 2) {
        for (int64_t phase = 0; phase < p.stride; phase++)
            for (int64_t i = 0; i < p.length; i++) {
                const float v = p.first[phase * p.apart + i] + bias;
                to[i * p.stride + phase] = relu && v < 0 ? 0 : v;
            }
        return;
    }
    for (int64_t i = 0; i < p.length; i += VL) {
        vf a = vf_load(p.first + i) + vf_set1(bias);
        a = relu ? vf_relu(a) : a;
        if (p.stride == 1) {
            vf_store(to + i, a);
            continue;
        }
        vf b = vf_load(p.first + p.apart + i) + vf_set1(bias);
        b = relu ? vf_relu(b) : b;
        vf_store(to + 2 * i, __builtin_shufflevector(a, b, LANES(LOW)));
        vf_store(to + 2 * i + VL, __builtin_shufflevector(a, b, LANES(HIGH)));
    }
}

#endif
