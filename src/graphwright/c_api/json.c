#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { NO_CONTAINER = -1, FIRST_VALUES = 64 };

typedef struct {
    char *at; /* the text is terminated by 0, which is not a character of JSON */
    json *values;
    int64_t count, capacity;
    int64_t open; /* the innermost container; its `span` is the one around it, plus 1 */
    const char *fault;
} parser;

static bool fault(parser *p, const char *what) {
    p->fault = what;
    return false;
}

static void skip_space(parser *p) {
    while (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r')
        p->at++;
}

/* Appends a new value. */
static json *push(parser *p, json_kind kind) {
    if (p->count == p->capacity) {
        int64_t capacity = p->capacity ? 2 * p->capacity : FIRST_VALUES;
        json *grown = realloc(p->values, (size_t)capacity * sizeof *grown);
        if (!grown) {
            fault(p, "there is not enough memory for it");
            return NULL;
        }
        p->values = grown, p->capacity = capacity;
    }
    json *value = &p->values[p->count++];
    *value = (json){.kind = kind, .span = 1};
    return value;
}

/* ---- strings ---- */

static bool hexadecimal(parser *p, unsigned *code) {
    *code = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        char c = *p->at;
        if (c >= '0' && c <= '9')
            *code = *code * 16 + (unsigned)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            *code = *code * 16 + (unsigned)((c | 32) - 'a') + 10;
        else
            return fault(p, "an escape has no four digits");
    }
    return true;
}

static char *write_utf8(char *out, unsigned code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 63));
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    }
    return out;
}

static bool is_surrogate(unsigned code) { return code >= 0xd800 && code < 0xe000; }

/* Reads the digits after \u. U+0000 and unpaired surrogates, which a C string in UTF-8 cannot contain, become
   U+FFFD. */
static bool unicode_escape(parser *p, char **out) {
    unsigned code, low;
    if (!hexadecimal(p, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00 && p->at[0] == '\\' && p->at[1] == 'u') {
        char *here = p->at;
        p->at += 2;
        if (!hexadecimal(p, &low))
            return false;
        if (low >= 0xdc00 && low < 0xe000)
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        else
            p->at = here;
    }
    *out = write_utf8(*out, code == 0 || is_surrogate(code) ? 0xfffd : code);
    return true;
}

static bool escape(parser *p, char **out) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = *p->at++;
    if (c == 'u')
        return unicode_escape(p, out);
    const char *found = c ? strchr(names, c) : NULL;
    if (!found)
        return fault(p, "there is no such escape");
    *(*out)++ = meanings[found - names];
    return true;
}

/* Strings are unescaped in place: they never grow. */
static bool parse_text(parser *p) {
    if (*p->at++ != '"')
        return fault(p, "a text does not begin");
    json *value = push(p, JSON_TEXT);
    if (!value)
        return false;
    char *out = p->at;
    value->text = out;
    while (*p->at != '"') {
        unsigned char c = (unsigned char)*p->at++;
        if (c < 0x20)
            return fault(p, "a text does not end");
        if (c != '\\')
            *out++ = (char)c;
        else if (!escape(p, &out))
            return false;
    }
    p->at++;
    *out = 0;
    return true;
}

/* ---- numbers and words ---- */

static bool parse_number(parser *p) {
    json *value = push(p, JSON_INTEGER);
    if (!value)
        return false;
    bool negative = *p->at == '-';
    p->at += negative;
    if (*p->at < '0' || *p->at > '9')
        return fault(p, "a value does not begin");
    for (; *p->at >= '0' && *p->at <= '9'; p->at++) {
        int64_t digit = negative ? '0' - *p->at : *p->at - '0';
        if (__builtin_mul_overflow(value->number, 10, &value->number) ||
            __builtin_add_overflow(value->number, digit, &value->number))
            value->kind = JSON_FLOAT;
    }
    if (strchr("+-.eE", *p->at) && *p->at) {
        value->kind = JSON_FLOAT; /* what is read has none: all are alike */
        p->at += strspn(p->at, "+-.eE0123456789");
    }
    return true;
}

static bool parse_word(parser *p, const char *word, json_kind kind, int64_t number) {
    size_t size = strlen(word);
    if (strncmp(p->at, word, size) != 0)
        return fault(p, "a value does not begin");
    p->at += size;
    json *value = push(p, kind);
    if (value)
        value->number = number;
    return value;
}

static bool parse_scalar(parser *p) {
    switch (*p->at) {
    case '"': return parse_text(p);
    case 'n': return parse_word(p, "null", JSON_NULL, 0);
    case 't': return parse_word(p, "true", JSON_BOOL, 1);
    case 'f': return parse_word(p, "false", JSON_BOOL, 0);
    default: return parse_number(p);
    }
}

/* ---- lists and objects ---- */

static bool parse_key(parser *p) {
    skip_space(p);
    if (!parse_text(p))
        return false;
    skip_space(p);
    return *p->at++ == ':' || fault(p, "a key has no value");
}

static void close_container(parser *p) {
    json *container = &p->values[p->open];
    p->open = (int64_t)container->span - 1;
    container->span = (uint32_t)(p->values + p->count - container);
}

/* Whether the container has a first value. */
static bool open_container(parser *p, bool *follows) {
    json_kind kind = *p->at++ == '{' ? JSON_OBJECT : JSON_LIST;
    json *container = push(p, kind);
    if (!container)
        return false;
    container->span = (uint32_t)(p->open + 1);
    p->open = container - p->values;
    skip_space(p);
    *follows = *p->at != (kind == JSON_OBJECT ? '}' : ']');
    if (*follows)
        return kind == JSON_LIST || parse_key(p);
    p->at++;
    close_container(p);
    return true;
}

/* Whether another value follows in the same container. */
static bool end_value(parser *p, bool *follows) {
    for (*follows = false; !*follows && p->open != NO_CONTAINER;) {
        json *container = &p->values[p->open];
        bool is_object = container->kind == JSON_OBJECT;
        container->count += is_object ? 2 : 1;
        skip_space(p);
        char c = *p->at++;
        *follows = c == ',';
        if (*follows)
            return !is_object || parse_key(p);
        if (c != (is_object ? '}' : ']'))
            return fault(p, "a list or an object does not end");
        close_container(p);
    }
    return true;
}

static bool parse_document(parser *p) {
    for (bool follows = true; follows;) {
        skip_space(p);
        bool is_container = *p->at == '{' || *p->at == '[', begins = false;
        if (!(is_container ? open_container(p, &begins) : parse_scalar(p)))
            return false;
        if (!begins && !end_value(p, &follows))
            return false;
    }
    skip_space(p);
    return true;
}

bool json_parse(json_document *document, const char *text, size_t size, const char **what) {
    parser p = {.open = NO_CONTAINER};
    *document = (json_document){0};
    if (size >= UINT32_MAX || !(document->text = malloc(size + 1))) { /* a value takes at least one byte */
        *what = "there is not enough memory for it";
        return false;
    }
    if (size > 0)
        memcpy(document->text, text, size);
    document->text[size] = 0;
    p.at = document->text;
    bool done = parse_document(&p);
    if (done && p.at != document->text + size)
        done = fault(&p, "extra text follows it");
    document->values = p.values;
    *what = p.fault;
    if (!done)
        json_free(document);
    return done;
}

void json_free(json_document *document) {
    free(document->text), free(document->values);
    *document = (json_document){0};
}

/* ---- reading ---- */

static bool is(const json *value, json_kind kind) { return value && value->kind == kind; }

const json *json_member(const json *object, const char *key) {
    const json *found = NULL;
    if (is(object, JSON_OBJECT))
        JSON_EACH_KEY(each, object)
            if (strcmp(each->text, key) == 0)
                found = each + 1;
    return found;
}

int64_t json_count(const json *list) { return is(list, JSON_LIST) ? list->count : 0; }

const json *json_item(const json *list, int64_t index) {
    JSON_EACH(item, list)
        if (index-- == 0)
            return item;
    return NULL;
}

const char *json_text(const json *value) { return is(value, JSON_TEXT) ? value->text : NULL; }

const char *json_text_of(const json *object, const char *key) { return json_text(json_member(object, key)); }

bool json_integer(const json *value, int64_t *number) {
    if (!is(value, JSON_INTEGER))
        return false;
    *number = value->number;
    return true;
}

bool json_is_true(const json *value) { return is(value, JSON_BOOL) && value->number; }

bool json_is_null(const json *value) { return is(value, JSON_NULL); }

const json *json_first(const json *list) { return is(list, JSON_LIST) && list->count > 0 ? list + 1 : NULL; }

const json *json_first_key(const json *object) {
    return is(object, JSON_OBJECT) && object->count > 0 ? object + 1 : NULL;
}

const json *json_next(const json *container, const json *value) {
    const json *next = value + value->span;
    return next < container + container->span ? next : NULL;
}
