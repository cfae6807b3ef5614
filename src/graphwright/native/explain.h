/* What the runtime reports, in the model's own names. */
#pragma once
#include "package.h"

/* Whether a guard of the program refused sizes: another form of the model may take them. */
bool is_broken_guard(const executable *program, const gw_error *error);
/* The status for what happened to a plan or a run of `program`; its text is kept. */
gw_status explain(const executable *program, const gw_error *error);
