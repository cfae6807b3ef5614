/* Resize: see resize.py. */

#include "resize/resize.gen.h"

#include "library/lanes.h"
#include "library/sizes.h"
#include "resize/taps.h"

#define KERNEL gw_resize_nearest_f32
#define MODE nearest
#define TAPS 1
#include "resize/resize_of.h"
#undef MODE
#undef KERNEL
#undef TAPS

#define KERNEL gw_resize_linear_f32
#define MODE linear
#define TAPS 2
#include "resize/resize_of.h"
#undef MODE
#undef KERNEL
#undef TAPS

#define KERNEL gw_resize_cubic_f32
#define MODE cubic
#define TAPS 4
#include "resize/resize_of.h"
#undef MODE
#undef KERNEL
#undef TAPS
