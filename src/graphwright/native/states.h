/* What a model keeps from run to run. The lock of the states is held. */
#pragma once
#include "package.h"

/* The memory that runs update: zeros at first, or what the model has for it. */
gw_status state_ready(const package *p, state *s);
