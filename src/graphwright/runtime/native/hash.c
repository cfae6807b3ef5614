#include "hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* NH, the first layer of UMAC (Black, Halevi, Krawczyk, Krovetz and Rogaway, 1999; RFC 4418): the sum of
   (low half + key) * (high half + key) over a chunk's words of 64 bits. A second sum with the key moved on
   ("Toeplitz") makes the words independent. */

enum { WORDS = GW_HASH_CHUNK / 8, SHIFT = 2 };
enum { GIVEN_BACK = 1024 }; /* number of chunks after which their pages are released */

static uint64_t key[WORDS + SHIFT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* SplitMix64 (Steele, Lea and Flood, 2014), from 0. */
static void make_key(void) {
    uint64_t state = 0;
    for (int i = 0; i < WORDS + SHIFT; i++) {
        uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        key[i] = z ^ z >> 31;
    }
}

/* Sums of halves wrap at 32 bits, so the key is added to each half alone. */
static inline uint64_t term(uint64_t word, uint64_t k) {
    uint64_t low = (uint32_t)((uint32_t)word + (uint32_t)k);
    uint64_t high = (uint32_t)((uint32_t)(word >> 32) + (uint32_t)(k >> 32));
    return low * high;
}

static void sum(const unsigned char *chunk, uint64_t *words) {
    uint64_t first = 0, second = 0;
    for (int i = 0; i < WORDS; i++) {
        uint64_t word;
        memcpy(&word, chunk + 8 * i, 8);
        first += term(word, key[i]);
        second += term(word, key[i + SHIFT]);
    }
    words[0] = first;
    words[1] = second;
}

typedef uint32_t lanes __attribute__((vector_size(32), aligned(8)));
typedef int32_t halves __attribute__((vector_size(32), aligned(8)));
typedef uint64_t wide __attribute__((vector_size(32), aligned(8)));

__attribute__((target("avx2"))) static inline wide wide_term(halves word, halves k) {
    halves low = (halves)((lanes)word + (lanes)k);
    return (wide)__builtin_ia32_pmuludq256(low, (halves)((wide)low >> 32));
}

/* The same sums, four words at a time. */
__attribute__((target("avx2"))) static void sum_wide(const unsigned char *chunk, uint64_t *words) {
    wide first = {0}, second = {0};
    for (int i = 0; i < WORDS; i += 4) {
        halves word, k, moved;
        memcpy(&word, chunk + 8 * i, sizeof word);
        memcpy(&k, key + i, sizeof k);
        memcpy(&moved, key + i + SHIFT, sizeof moved);
        first += wide_term(word, k);
        second += wide_term(word, moved);
    }
    words[0] = first[0] + first[1] + first[2] + first[3];
    words[1] = second[0] + second[1] + second[2] + second[3];
}

static void give_back(const unsigned char *begin, const unsigned char *end) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)begin / page * page;
    (void)madvise((void *)first, (uintptr_t)end - first, MADV_DONTNEED);
}

void gw_hash_chunks(const void *data, size_t chunks, bool mapped, uint64_t *words) {
    pthread_once(&once, make_key);
    void (*one)(const unsigned char *, uint64_t *) = __builtin_cpu_supports("avx2") ? sum_wide : sum;
    const unsigned char *next = data, *kept = data;
    for (size_t i = 0; i < chunks; i++, next += GW_HASH_CHUNK) {
        one(next, words + i * GW_HASH_WORDS);
        if (mapped && (i + 1 == chunks || (i + 1) % GIVEN_BACK == 0)) {
            give_back(kept, next + GW_HASH_CHUNK);
            kept = next + GW_HASH_CHUNK;
        }
    }
}
