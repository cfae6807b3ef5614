/* Decodes the host programs of the manifest. */
#pragma once
#include "steps.h"

typedef gw_status decode_callee(package *p, const json *plain, executable *decoded, int depth);

/* Decodes a host program of calls and bound sizes; fails for other steps. `callee` decodes the executable
   that a step calls. */
gw_status decode_steps(package *p, const json *plain, host_program **decoded, decode_callee *callee,
                       int depth);
