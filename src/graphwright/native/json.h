/* JSON (RFC 8259) that may come from anyone: parsed without recursion, into one table of values.

   Functions that read a value take NULL, and values of another kind, as what is not there. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { JSON_NULL, JSON_BOOL, JSON_INTEGER, JSON_FLOAT, JSON_TEXT, JSON_LIST, JSON_OBJECT } json_kind;

/* A value. Those that a list or an object holds follow it; an object holds keys and values in turn. */
typedef struct {
    uint32_t kind;
    uint32_t span; /* values from this one on, itself included, that are it or in it */
    union {
        int64_t number;   /* of an integer, or of a bool */
        int64_t count;    /* of a list: its items; of an object: its keys and values */
        const char *text; /* ends with 0; has no other 0 */
    };
} json;

typedef struct {
    char *text;
    json *values; /* the first is the whole document */
} json_document;

/* False, and a text in `fault`, where it is no JSON, or there is no memory. A copy of `text` is kept. */
bool json_parse(json_document *document, const char *text, size_t size, const char **fault);
void json_free(json_document *document);

/* The value of a key; of the last one if there are several. */
const json *json_member(const json *object, const char *key);
/* The number of items, and one of them. */
int64_t json_count(const json *list);
const json *json_item(const json *list, int64_t index);
const char *json_text(const json *value);
/* The text of a member. */
const char *json_text_of(const json *object, const char *key);
bool json_integer(const json *value, int64_t *number);
bool json_is_true(const json *value);
bool json_is_null(const json *value);

/* The first item of a list, and the first key of an object. NULL where there is none. */
const json *json_first(const json *list);
const json *json_first_key(const json *object);
/* What is behind an item or a member's value. NULL at the end. */
const json *json_next(const json *container, const json *value);

#define JSON_EACH(item, list) for (const json *item = json_first(list); item; item = json_next(list, item))
/* Its value is the one behind the key. */
#define JSON_EACH_KEY(key, object)                                                                           \
    for (const json *key = json_first_key(object); key; key = json_next(object, key + 1))
