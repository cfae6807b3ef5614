/* Winograd convolution: see winograd.py. */

#include "conv/winograd.h"
#include "conv/winograd_lines.h"
#include "library/templates.h"

#define KERNEL gw_winograd4_f32
#define M 4
#define N 6
#include "conv/winograd_of.h"
#undef M
#undef KERNEL
#undef N

#define KERNEL gw_winograd2_f32
#define M 2
#define N 4
#include "conv/winograd_of.h"
#undef M
#undef KERNEL
#undef N
