/* Code that is included several times, each time with another SIZE (or the like): OF(rows) is rows_4. */

#ifndef GW_TEMPLATES_H
#define GW_TEMPLATES_H

#define GW_JOIN_AS_IS(a, b) a##_##b
#define GW_JOIN(a, b) GW_JOIN_AS_IS(a, b)

#endif
