#include "sha256.h"

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static _Alignas(16) const uint32_t CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* ---- blocks in plain C ---- */

static void add_block(uint32_t words[8], const unsigned char *block) {
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++) {
        uint32_t word;
        memcpy(&word, block + 4 * t, sizeof word);
        w[t] = __builtin_bswap32(word);
    }
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        uint32_t low = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3, high = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
        w[t] = w[t - 16] + low + w[t - 7] + high;
    }
    memcpy(s, words, sizeof s);
    for (int t = 0; t < 64; t++) {
        uint32_t e = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t first = s[7] + e + choice + CONSTANTS[t] + w[t];
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + a + majority;
    }
    for (int i = 0; i < 8; i++)
        words[i] += s[i];
}

static void add_blocks(uint32_t words[8], const unsigned char *data, size_t count) {
    for (; count > 0; count--, data += SHA256_BLOCK)
        add_block(words, data);
}

/* ---- blocks with the SHA instructions (Intel SDM volume 1, chapter 13.6), five times as fast ---- */

#define SHA_TARGET __attribute__((target("sha,sse4.1")))

/* The instructions expect the words a, b, e, f in one register and c, d, g, h in another, the first in the
   highest lane. */
SHA_TARGET static void add_blocks_by_instructions(uint32_t words[8], const unsigned char *data,
                                                  size_t count) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abef = _mm_set_epi32((int)words[0], (int)words[1], (int)words[4], (int)words[5]);
    __m128i cdgh = _mm_set_epi32((int)words[2], (int)words[3], (int)words[6], (int)words[7]);
    for (; count > 0; count--, data += SHA256_BLOCK) {
        __m128i w[4], abef_before = abef, cdgh_before = cdgh;
        for (int i = 0; i < 4; i++) {
            __m128i loaded = _mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i));
            w[i] = _mm_shuffle_epi8(loaded, big_endian);
        }
        for (int t = 0; t < 16; t++) { /* four rounds each */
            __m128i now = w[t % 4];
            __m128i sum = _mm_add_epi32(now, _mm_load_si128((const __m128i *)(const void *)CONSTANTS + t));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (t < 12) { /* the words of the round sixteen later */
                __m128i next = w[(t + 1) % 4], third = w[(t + 2) % 4], fourth = w[(t + 3) % 4];
                __m128i made = _mm_sha256msg1_epu32(now, next);
                made = _mm_add_epi32(made, _mm_alignr_epi8(fourth, third, 4));
                w[t % 4] = _mm_sha256msg2_epu32(made, fourth);
            }
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    uint32_t high[4], low[4];
    _mm_storeu_si128((__m128i *)(void *)high, abef);
    _mm_storeu_si128((__m128i *)(void *)low, cdgh);
    words[0] = high[3], words[1] = high[2], words[4] = high[1], words[5] = high[0];
    words[2] = low[3], words[3] = low[2], words[6] = low[1], words[7] = low[0];
}

static bool has_instructions(void) {
    unsigned a, b, c, d, leaf7;
    return __get_cpuid_count(7, 0, &a, &leaf7, &c, &d) && (leaf7 >> 29 & 1) &&
           __get_cpuid(1, &a, &b, &c, &d) && (c >> 19 & 1);
}

/* ---- messages ---- */

void sha256_begin(sha256 *state) {
    /* The square roots of the first eight primes. */
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    *state = (sha256){0};
    memcpy(state->words, start, sizeof start);
}

void sha256_add(sha256 *state, const void *data, size_t size) {
    const unsigned char *bytes = data;
    size_t held = state->size % SHA256_BLOCK;
    state->size += size;
    if (held > 0) {
        size_t part = SHA256_BLOCK - held < size ? SHA256_BLOCK - held : size;
        memcpy(state->tail + held, bytes, part);
        bytes += part, size -= part;
        if (held + part < SHA256_BLOCK)
            return;
        add_blocks(state->words, state->tail, 1);
    }
    (has_instructions() ? add_blocks_by_instructions : add_blocks)(state->words, bytes, size / SHA256_BLOCK);
    if (size % SHA256_BLOCK > 0)
        memcpy(state->tail, bytes + size / SHA256_BLOCK * SHA256_BLOCK, size % SHA256_BLOCK);
}

void sha256_end(sha256 *state, unsigned char digest[SHA256_BYTES]) {
    static const unsigned char padding[SHA256_BLOCK] = {0x80};
    uint64_t bits = __builtin_bswap64(state->size * 8);
    size_t held = state->size % SHA256_BLOCK, room = SHA256_BLOCK - sizeof bits;
    sha256_add(state, padding, held < room ? room - held : SHA256_BLOCK + room - held);
    sha256_add(state, &bits, sizeof bits);
    for (int i = 0; i < 8; i++) {
        uint32_t word = __builtin_bswap32(state->words[i]);
        memcpy(digest + 4 * i, &word, sizeof word);
    }
}

void sha256_of(const void *data, size_t size, unsigned char digest[SHA256_BYTES]) {
    sha256 state;
    sha256_begin(&state);
    sha256_add(&state, data, size);
    sha256_end(&state, digest);
}

void hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
                 unsigned char digest[SHA256_BYTES]) {
    unsigned char block[SHA256_BLOCK] = {0}, inner[SHA256_BLOCK], outer[SHA256_BLOCK];
    sha256 state;
    if (key_size > SHA256_BLOCK)
        sha256_of(key, key_size, block);
    else if (key_size > 0)
        memcpy(block, key, key_size);
    for (int i = 0; i < SHA256_BLOCK; i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5c;
    }
    sha256_begin(&state);
    sha256_add(&state, inner, sizeof inner);
    sha256_add(&state, data, size);
    sha256_end(&state, digest);
    sha256_begin(&state);
    sha256_add(&state, outer, sizeof outer);
    sha256_add(&state, digest, SHA256_BYTES);
    sha256_end(&state, digest);
}

bool sha256_is(const unsigned char digest[SHA256_BYTES], const char *text, size_t size) {
    static const char digits[] = "0123456789abcdef";
    int differ = size != SHA256_HEX;
    for (size_t i = 0; i < size && i < SHA256_HEX; i++)
        differ |= digits[i % 2 ? digest[i / 2] & 15 : digest[i / 2] >> 4] ^ text[i];
    return !differ;
}
