/* A row of a transposed convolution by phase, the remainder of its columns modulo the stride. */

#ifndef GW_PHASES_H
#define GW_PHASES_H

#include "library/lanes.h"

/* `stride` phases of `length` elements, whole vectors; they begin `apart` elements apart. */
struct phases {
    float *first;
    int64_t apart, length, stride;
};

GW_INLINE vf finished(const float *from, float bias, int relu) {
    const vf v = vf_load(from) + vf_set1(bias);
    return relu ? vf_relu(v) : v;
}

/* Interleaves more than two phases, which are finished in place. */
GW_INLINE void weave_phases(struct phases p, float bias, int relu, float *to) {
    for (int64_t phase = 0; phase < p.stride; phase++)
        for (float *at = p.first + phase * p.apart, *end = at + p.length; at < end; at += VL)
            vf_store(at, finished(at, bias, relu));
    if (woven_4((char *)to, (const char *)p.first, p.apart * 4, p.stride, p.length))
        return;
    for (int64_t i = 0; i < p.length; i++)
        for (int64_t phase = 0; phase < p.stride; phase++)
            *to++ = p.first[phase * p.apart + i];
}

/* Interleaves the phases: to[i * stride + phase] = phase[i] + bias, then relu. */
GW_INLINE void interleave_phases(struct phases p, float bias, int relu, float *to) {
    if (p.stride > 2) {
        weave_phases(p, bias, relu, to);
        return;
    }
    for (int64_t i = 0; i < p.length; i += VL) {
        const vf a = finished(p.first + i, bias, relu);
        if (p.stride == 1) {
            vf_store(to + i, a);
            continue;
        }
        const vf b = finished(p.first + p.apart + i, bias, relu);
        vf_store(to + 2 * i, __builtin_shufflevector(a, b, LANES(LOW)));
        vf_store(to + 2 * i + VL, __builtin_shufflevector(a, b, LANES(HIGH)));
    }
}

#endif
