/* Computes the weights of a further target from those of the first one, as package/repacked_weights.py does.
 */
#pragma once
#include "package.h"

/* Packs the weights for the chosen ISA if they are stored for another one. */
gw_status packs_apply(package *p);
