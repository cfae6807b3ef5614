/* Offsets of the buffers in an arena. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "error.h"

enum { GW_ALIGNMENT = 64 };

/* Bounds of the search for better offsets, as extents that it examines (about 5 ns each): for a program with
   only one plan, and for one that is planned for new shapes while a run waits. */
enum { GW_PLACING_ONCE = 2000000, GW_PLACING_OFTEN = 200000 };

/* Offsets of buffers in one arena such that no two that conflict overlap; all are multiples of 64.
   Buffer i conflicts with conflicts[starts[i]] .. conflicts[starts[i + 1]], all lower than i. Deterministic.
 */
bool gw_plan_memory(int64_t count, const int64_t *sizes, const int64_t *starts, const int64_t *conflicts,
                    int64_t work, int64_t *offsets, int64_t *arena_bytes, gw_error *error);
