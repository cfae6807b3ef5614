/* The manifest's host programs as structs. */
#pragma once
#include "steps.h"

typedef gw_status decode_callee(package *p, const json *plain, executable *decoded, int depth);

/* Decodes a host program whose steps are calls and bound sizes alone: `callee` decodes what it calls. */
gw_status decode_steps(package *p, const json *plain, host_program **decoded, decode_callee *callee,
                       int depth);
