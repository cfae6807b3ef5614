/* Errors of the runtime, in the names of the model. */
#pragma once
#include "package.h"

/* Whether a guard of the program rejected the sizes: another program of the model may accept them. */
bool is_broken_guard(const executable *program, const gw_error *error);
/* The status for an error of a plan or a run of `program`; keeps its text for gw_error_text. */
gw_status explain(const executable *program, const gw_error *error);
