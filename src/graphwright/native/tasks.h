/* The tasks of a program as packages hold them: JSON, and the words that the runtime decodes. */
#pragma once
#include "archive.h"
#include "json.h"

/* The words (see lower/wire.py) of what `tasks` says; free them. Everything but the kinds of its values is
   checked by who decodes them. */
gw_status tasks_encode(const json *tasks, const archive *a, int64_t **words, size_t *count);
