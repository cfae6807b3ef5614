/* SHA-256 (FIPS 180-4), and HMAC (RFC 2104) with it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64, SHA256_HEX = 2 * SHA256_BYTES };

typedef struct {
    uint32_t words[8];
    uint64_t size;                    /* bytes added so far */
    unsigned char tail[SHA256_BLOCK]; /* the bytes of the last, incomplete block */
} sha256;

void sha256_begin(sha256 *state);
void sha256_add(sha256 *state, const void *data, size_t size);
void sha256_end(sha256 *state, unsigned char digest[SHA256_BYTES]);

void sha256_of(const void *data, size_t size, unsigned char digest[SHA256_BYTES]);
void hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
                 unsigned char digest[SHA256_BYTES]);
/* Whether `text` is the digest in lowercase hexadecimal digits, compared in constant time. */
bool sha256_is(const unsigned char digest[SHA256_BYTES], const char *text, size_t size);
