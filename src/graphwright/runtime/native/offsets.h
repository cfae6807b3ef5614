/* Where the buffers of one arena lie. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "error.h"

enum { GW_ALIGNMENT = 64 };

/* Extents that a search for better offsets may look at, about 5 ns each: of a program that has one plan, and
   of one whose new shape is planned while its first run waits. */
enum { GW_PLACING_ONCE = 2000000, GW_PLACING_OFTEN = 200000 };

/* Offsets of buffers in one arena such that no two that conflict overlap; all are multiples of 64.
   Buffer i conflicts with conflicts[starts[i]] .. conflicts[starts[i + 1]], all lower than i. Deterministic.
 */
bool gw_plan_memory(int64_t count, const int64_t *sizes, const int64_t *starts, const int64_t *conflicts,
                    int64_t work, int64_t *offsets, int64_t *arena_bytes, gw_error *error);
