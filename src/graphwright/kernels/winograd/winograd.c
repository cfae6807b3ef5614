/* Winograd convolution: see winograd.py. */

#include "winograd/winograd.h"
#include "winograd/winograd_lines.h"
#include "library/templates.h"

#define KERNEL gw_winograd4_f32
#define M 4
#define N 6
#include "winograd/winograd_of.h"
#undef M
#undef KERNEL
#undef N

#define KERNEL gw_winograd2_f32
#define M 2
#define N 4
#include "winograd/winograd_of.h"
#undef M
#undef KERNEL
#undef N
