/* A fast hash that condenses data before a cryptographic hash, at memory bandwidth. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_HASH_CHUNK = 4096, GW_HASH_WORDS = 2 };

/* Computes GW_HASH_WORDS words for each whole chunk of `data`. Different chunks collide with a probability of
   2^-64, but not for an adversary, as the key is public. `mapped`: the data is a mapped file, whose pages are
   released after they are read. */
void gw_hash_chunks(const void *data, size_t chunks, bool mapped, uint64_t *words);
