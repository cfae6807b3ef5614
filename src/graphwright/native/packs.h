/* Weights of a further target, made of those of the first as package/packs.py makes them. */
#pragma once
#include "package.h"

/* Packs the weights for the ISA that runs, where they are stored for another one. */
gw_status packs_apply(package *p);
