/* Shrinks data before a cryptographic hash: memory's speed instead of the hash's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_HASH_CHUNK = 4096, GW_HASH_WORDS = 2 };

/* GW_HASH_WORDS words for each whole chunk of `data`. Chunks that differ give the same words with a chance of
   2^-64; not against an adversary, who may look the key up. `mapped`: the data maps a file to be read; its
   pages are given back behind the reader, and count as the process's memory no more. */
void gw_hash_chunks(const void *data, size_t chunks, bool mapped, uint64_t *words);
