/* Macros for code that is included several times with another SIZE (or similar): OF(rows) is rows_4. */

#ifndef GW_TEMPLATES_H
#define GW_TEMPLATES_H

#define GW_JOIN_AS_IS(a, b) a##_##b
#define GW_JOIN(a, b) GW_JOIN_AS_IS(a, b)

/* VF_MATH(exp) is the vector function that vmath.py generates, for example exp_f32x16. */
#define GW_MATH_AS_IS(name, lanes) name##_f32x##lanes
#define GW_MATH(name, lanes) GW_MATH_AS_IS(name, lanes)
#define VF_MATH(name) GW_MATH(name, VL)

#endif
