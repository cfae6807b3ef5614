/* The tensors that a model keeps from run to run. Callers hold the lock of the states. */
#pragma once
#include "package.h"

/* Allocates the memory that runs update and fills it with the initial value: zeros, or that of the model. */
gw_status state_ready(const package *p, state *s);
