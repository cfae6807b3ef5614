#include "archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* PKWARE APPNOTE 6.3: sizes of the records and offsets of their fields, in bytes. */
enum {
    LOCAL = 30,
    LOCAL_NAME = 26,
    LOCAL_EXTRA = 28,
    ENTRY = 46, /* of the central directory; name, extra fields and comment follow */
    ENTRY_FLAGS = 8,
    ENTRY_METHOD = 10,
    ENTRY_STORED = 20,
    ENTRY_SIZE = 24,
    ENTRY_NAME = 28,
    ENTRY_EXTRA = 30,
    ENTRY_COMMENT = 32,
    ENTRY_OFFSET = 42,
    END = 22,
    END_COUNT = 10,
    END_SIZE = 12,
    END_START = 16,
    END_COMMENT = 20,
    END_64 = 56,
    END_64_COUNT = 32,
    END_64_SIZE = 40,
    END_64_START = 48,
    LOCATOR_64 = 20,
    LOCATOR_64_END = 8,
    WIDE_FIELD = 1, /* the ZIP64 extra field */
    ALIGNMENT = 64,
};
#define LARGE 0xffffffffu /* the number is in the ZIP64 extra field */

gw_status archive_damaged(const archive *a, const char *reason) {
    return fail(GW_STATUS_PACKAGE,
                "%s: not a valid package: %s (check that it is an .om file, copied completely)", a->where,
                reason);
}

/* ---- bytes ---- */

static uint64_t number(const char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | (unsigned char)at[i];
    return value;
}

static uint16_t u16(const char *at) { return (uint16_t)number(at, 2); }
static uint32_t u32(const char *at) { return (uint32_t)number(at, 4); }
static uint64_t u64(const char *at) { return number(at, 8); }

static bool is_marked(const char *record, const char *mark) { return memcmp(record, mark, 4) == 0; }

/* Copies bytes [start, start + size) of the archive. */
static gw_status fetch(const archive *a, uint64_t start, char *data, size_t size) {
    if (start > a->size || size > a->size - start)
        return archive_damaged(a, "it is too short");
    if (a->file < 0) {
        memcpy(data, a->memory + start, size);
        return GW_STATUS_OK;
    }
    while (size > 0) {
        ssize_t count = pread(a->file, data, size, (off_t)start);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail(GW_STATUS_FILE, "%s cannot be read: %s", a->where, strerror(errno));
        if (count == 0)
            return archive_damaged(a, "the file was truncated while it was read");
        data += count, start += (uint64_t)count, size -= (size_t)count;
    }
    return GW_STATUS_OK;
}

/* ---- the directory ---- */

typedef struct {
    uint64_t count, size, start, end; /* `end`: the offset at which it must end */
} directory;

static gw_status find_directory_64(const archive *a, uint64_t behind, directory *found) {
    char locator[LOCATOR_64], record[END_64];
    if (behind < LOCATOR_64)
        return archive_damaged(a, "it is too short");
    TRY(fetch(a, behind - LOCATOR_64, locator, sizeof locator));
    if (!is_marked(locator, "PK\6\7"))
        return archive_damaged(a, "its directory is not at the stated offset");
    found->end = u64(locator + LOCATOR_64_END);
    TRY(fetch(a, found->end, record, sizeof record));
    if (!is_marked(record, "PK\6\6") || found->end != behind - LOCATOR_64 - END_64)
        return archive_damaged(a, "its 64-bit directory is damaged");
    found->count = u64(record + END_64_COUNT);
    found->size = u64(record + END_64_SIZE);
    found->start = u64(record + END_64_START);
    return GW_STATUS_OK;
}

static bool ends_rightly(const directory *d) { return d->size <= d->end && d->start == d->end - d->size; }

static gw_status find_directory(const archive *a, directory *found) {
    char record[END];
    if (a->size < END)
        return archive_damaged(a, "it is too short");
    TRY(fetch(a, a->size - END, record, sizeof record));
    if (!is_marked(record, "PK\5\6") || u16(record + END_COMMENT) != 0)
        return archive_damaged(a, "it does not end as a zip file does");
    uint32_t size = u32(record + END_SIZE), start = u32(record + END_START);
    *found = (directory){u16(record + END_COUNT), size, start, a->size - END};
    if (found->count == 0xffff || size == LARGE || start == LARGE || !ends_rightly(found))
        TRY(find_directory_64(a, a->size - END, found));
    if (!ends_rightly(found) || found->count > found->size / ENTRY)
        return archive_damaged(a, "its directory is not at the stated offset");
    return GW_STATUS_OK;
}

/* ---- members ---- */

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether a name consists of words separated by '-', '.' or '/'. */
static bool is_plain(const char *name) {
    bool in_word = false;
    for (; *name; name++) {
        if (!is_word(*name) && (!in_word || !strchr("-./", *name)))
            return false;
        in_word = is_word(*name);
    }
    return in_word;
}

/* Reads a number that exceeds 32 bits from the ZIP64 extra field. */
static bool widen(uint64_t *value, const char **wide, const char *wide_end) {
    if (*value != LARGE)
        return true;
    if (wide_end - *wide < 8)
        return false;
    *value = u64(*wide);
    *wide += 8;
    return true;
}

static bool find_wide(const char *fields, const char *end, const char **wide, const char **wide_end) {
    *wide = *wide_end = end;
    while (fields < end) {
        if (end - fields < 4)
            return false;
        size_t length = u16(fields + 2);
        const char *content = fields + 4;
        if (length > (size_t)(end - content))
            length = (size_t)(end - content);
        if (u16(fields) == WIDE_FIELD)
            *wide = content, *wide_end = content + length;
        fields = content + length;
    }
    return true;
}

/* The offset of the content of a member whose header is at `offset`. */
static gw_status find_start(archive *a, member *m, uint64_t offset) {
    char header[LOCAL], name[UINT16_MAX + 1];
    size_t length = strlen(m->name);
    if (a->size < LOCAL || offset > a->size - LOCAL)
        return archive_damaged(a, "a member has its header beyond the end of the file");
    TRY(fetch(a, offset, header, sizeof header));
    if (!is_marked(header, "PK\3\4") || u16(header + LOCAL_NAME) != length)
        return archive_damaged(a, "a member has an invalid local header");
    TRY(fetch(a, offset + LOCAL, name, length));
    if (memcmp(name, m->name, length) != 0)
        return archive_damaged(a, "a member has an invalid local header");
    m->start = offset + LOCAL + length + u16(header + LOCAL_EXTRA);
    if (m->start % ALIGNMENT != 0)
        return archive_damaged(a, "a member is not aligned");
    if (m->start > a->size || m->size > a->size - m->start)
        return archive_damaged(a, "a member extends beyond the end of the file");
    return GW_STATUS_OK;
}

/* Reads the member at `*at` of the directory and advances `*at` past it. */
static gw_status read_entry(archive *a, const char **at, const char *end, member *m) {
    const char *entry = *at, *name = entry + ENTRY;
    if (end - entry < ENTRY || !is_marked(entry, "PK\1\2"))
        return archive_damaged(a, "its directory is damaged");
    size_t length = u16(entry + ENTRY_NAME), extra = u16(entry + ENTRY_EXTRA);
    if ((size_t)(end - name) < length + extra + u16(entry + ENTRY_COMMENT))
        return archive_damaged(a, "its directory is damaged");
    *at = name + length + extra + u16(entry + ENTRY_COMMENT);
    char *text = pool_allocate(&a->names, length + 1, 1);
    if (!text)
        return fail_memory();
    memcpy(text, name, length);
    m->name = text;
    if (strlen(text) != length || !is_plain(text))
        return archive_damaged(a, "a member has an invalid name");
    const char *wide, *wide_end;
    uint64_t stored = u32(entry + ENTRY_STORED), offset = u32(entry + ENTRY_OFFSET);
    m->size = u32(entry + ENTRY_SIZE);
    if (!find_wide(name + length, name + length + extra, &wide, &wide_end) ||
        !widen(&m->size, &wide, wide_end) || !widen(&stored, &wide, wide_end) ||
        !widen(&offset, &wide, wide_end))
        return archive_damaged(a, "its directory is damaged");
    if (u16(entry + ENTRY_METHOD) || u16(entry + ENTRY_FLAGS) || stored != m->size)
        return archive_damaged(a, "a member is compressed or encrypted");
    return find_start(a, m, offset);
}

static int by_start(const void *a, const void *b) {
    const member *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start)
                                : (x->size > y->size) - (x->size < y->size);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const member *)a)->name, ((const member *)b)->name);
}

static gw_status check_members(archive *a) {
    qsort(a->members, a->count, sizeof *a->members, by_start);
    for (size_t i = 1; i < a->count; i++)
        if (a->members[i - 1].start + a->members[i - 1].size > a->members[i].start)
            return archive_damaged(a, "two members share bytes");
    qsort(a->members, a->count, sizeof *a->members, by_name);
    for (size_t i = 1; i < a->count; i++)
        if (by_name(&a->members[i - 1], &a->members[i]) == 0)
            return archive_damaged(a, "two members have one name");
    return GW_STATUS_OK;
}

static gw_status read_entries(archive *a, const directory *d, const char *records) {
    const char *at = records, *end = records + d->size;
    for (; a->count < d->count; a->count++)
        TRY(read_entry(a, &at, end, &a->members[a->count]));
    if (at != end)
        return archive_damaged(a, "its directory is damaged");
    return check_members(a);
}

static gw_status read_directory(archive *a) {
    directory found = {0};
    block records = {0};
    TRY(find_directory(a, &found));
    a->members = calloc(found.count + 1, sizeof *a->members);
    if (!a->members || !block_allocate(&records, found.size))
        return fail_memory();
    gw_status status = fetch(a, found.start, records.data, records.size);
    if (status == GW_STATUS_OK)
        status = read_entries(a, &found, records.data);
    block_free(&records);
    return status;
}

/* ---- archives ---- */

gw_status archive_open_file(archive *a, const char *path) {
    struct stat status;
    *a = (archive){.where = path, .file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (!*path)
        return fail(GW_STATUS_FILE, "the path is empty");
    if (a->file < 0 || fstat(a->file, &status) != 0)
        return fail(GW_STATUS_FILE, "%s cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(GW_STATUS_FILE, "%s is not a regular file", path);
    a->size = (uint64_t)status.st_size;
    return read_directory(a);
}

gw_status archive_open_memory(archive *a, const char *where, const void *data, size_t size) {
    *a = (archive){.where = where, .file = -1, .memory = data, .size = size};
    return read_directory(a);
}

void archive_close(archive *a) {
    if (a->file >= 0)
        close(a->file);
    free(a->members);
    pool_free(&a->names);
    *a = (archive){.file = -1};
}

const member *archive_find(const archive *a, const char *name) {
    const member key = {.name = name};
    return bsearch(&key, a->members, a->count, sizeof key, by_name);
}

gw_status archive_read(const archive *a, const member *m, block *content) {
    if (!block_allocate(content, m->size))
        return fail_memory();
    gw_status status = fetch(a, m->start, content->data, content->size);
    if (status != GW_STATUS_OK)
        block_free(content);
    return status;
}
