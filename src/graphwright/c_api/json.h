/* JSON (RFC 8259) from untrusted sources, parsed without recursion into one table of values.

   Functions that read a value treat NULL and values of another kind as absent. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { JSON_NULL, JSON_BOOL, JSON_INTEGER, JSON_FLOAT, JSON_TEXT, JSON_LIST, JSON_OBJECT } json_kind;

/* A value. The items of a list follow it; so do the keys and values of an object, alternately. */
typedef struct {
    uint32_t kind;
    uint32_t span; /* number of table entries of this value, including itself and all nested values */
    union {
        int64_t number;   /* of an integer or a bool */
        int64_t count;    /* items of a list; keys and values of an object */
        const char *text; /* terminated by 0; contains no other 0 */
    };
} json;

typedef struct {
    char *text;
    json *values; /* the first is the whole document */
} json_document;

/* Parses a copy of `text`. Returns false and the reason in `fault` if it is not valid JSON or memory is
   exhausted. */
bool json_parse(json_document *document, const char *text, size_t size, const char **fault);
void json_free(json_document *document);

/* The value of a key; of the last such key if there are several. */
const json *json_member(const json *object, const char *key);
/* The number of items, and one of them. */
int64_t json_count(const json *list);
const json *json_item(const json *list, int64_t index);
const char *json_text(const json *value);
/* The string value of a key. */
const char *json_text_of(const json *object, const char *key);
bool json_integer(const json *value, int64_t *number);
bool json_is_true(const json *value);
bool json_is_null(const json *value);

/* The first item of a list; the first key of an object. NULL if it is empty. */
const json *json_first(const json *list);
const json *json_first_key(const json *object);
/* What follows an item of a list or a value of an object. NULL at the end. */
const json *json_next(const json *container, const json *value);

#define JSON_EACH(item, list) for (const json *item = json_first(list); item; item = json_next(list, item))
/* The value of a key is at `key + 1`. */
#define JSON_EACH_KEY(key, object)                                                                           \
    for (const json *key = json_first_key(object); key; key = json_next(object, key + 1))
