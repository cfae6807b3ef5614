/* Translates the tasks of a program from JSON, their form in packages, to the words that the runtime decodes.
 */
#pragma once
#include "archive.h"
#include "json.h"

/* Encodes `tasks` as words (see low_ir/wire.py), which the caller frees. Checks only the kinds of the values;
   the decoder of the runtime checks the rest. */
gw_status tasks_encode(const json *tasks, const archive *a, int64_t **words, size_t *count);
