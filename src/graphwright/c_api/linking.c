#include "linking.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "embedded.h"
#include "loader.h"
#include "sha256.h"
#include "tasks.h"

enum { PLANS = 16, NAMES = 1024 };

/* ---- members ---- */

gw_status link_member(package *p, const char *name, block *content) {
    const member *found = archive_find(&p->source, name);
    const json *listed = json_member(p->members, name), *size = json_first(listed);
    const char *hash = json_count(listed) == 2 ? json_text(json_next(listed, size)) : NULL;
    int64_t bytes = -1;
    unsigned char digest[SHA256_BYTES];
    if (!found || !hash || !json_integer(size, &bytes))
        return fail(GW_STATUS_PACKAGE, "%s: not a valid package: member %.200s is missing", p->where, name);
    if (bytes < 0 || (uint64_t)bytes != found->size)
        return fail(GW_STATUS_PACKAGE, "%s: not a valid package: member %.200s has %" PRIu64 " bytes",
                    p->where, name, found->size);
    TRY(archive_read(&p->source, found, content));
    sha256_of(content->data, content->size, digest);
    if (sha256_is(digest, hash, strlen(hash)))
        return GW_STATUS_OK;
    block_free(content);
    return fail(GW_STATUS_PACKAGE, "%s: member %.200s was changed after it was written: fetch the file again",
                p->where, name);
}

/* ---- the choice of an ISA ---- */

/* Loads the library of kernels, which is in this library or in its folder. NULL if it cannot be loaded. */
static void *open_kernels(const char *isa, gw_error *error) {
    Dl_info here;
    char path[PATH_MAX];
    if (embedded_is_present())
        return embedded_kernels(isa, error);
    if (!dladdr((void *)(uintptr_t)open_kernels, &here) || !here.dli_fname) {
        gw_fail(error, GW_E_LOAD, "the folder of libgraphwright.so cannot be found");
        return NULL;
    }
    const char *slash = strrchr(here.dli_fname, '/');
    int folder = slash ? (int)(slash - here.dli_fname) : 1;
    snprintf(path, sizeof path, "%.*s/libgraphwright_kernels_%s.so", folder, slash ? here.dli_fname : ".",
             isa);
    return gw_load_file(path, error);
}

/* The reason why the kernels of the package for `isa` cannot be used with the library `kernels`, or NULL. */
static const char *unfit(const package *p, const char *isa, void *kernels) {
    const char *digest = gw_symbol(kernels, "gw_kernels_digest");
    JSON_EACH(entry, json_member(p->manifest.values, "entries"))
        JSON_EACH(program, json_member(entry, "programs")) {
            const char *library = json_text_of(json_member(program, isa), "library");
            if (!library)
                return "it holds no kernels for it: compile it with --targets";
            if (!digest || strcmp(library, digest) != 0)
                return "its kernels are for another version of graphwright: compile the model with this one";
        }
    return NULL;
}

gw_status link_choose_isa(package *p) {
    static const char *const levels[] = {"v4", "v3"}; /* the newest first */
    const char *here = gw_cpu_isa(),
               *why = "this CPU has no AVX2 and FMA (x86-64-v3), which all kernels need";
    gw_error error = {0};
    for (size_t i = strcmp(here, "v4") == 0 ? 0 : 1; strcmp(here, "baseline") != 0 && i < 2; i++) {
        void *kernels = open_kernels(levels[i], &error);
        const char *reason = kernels ? unfit(p, levels[i], kernels) : error.text;
        if (!reason) {
            p->kernels = kernels;
            p->isa = levels[i];
            return GW_STATUS_OK;
        }
        if (kernels)
            gw_unload(kernels);
        why = i == 0 || strcmp(here, "v3") == 0 ? reason
                                                : why; /* the reason of the best ISA is the most useful */
    }
    return fail(GW_STATUS_UNSUPPORTED, "%s does not run on this CPU (%s): %s", p->where, here, why);
}

/* ---- kernels ---- */

/* The shared object in a member, loaded once. */
static gw_status load_object(package *p, const char *name, void **handle) {
    const member *origin = archive_find(&p->source, name);
    block code = {0};
    gw_error error = {0};
    for (size_t i = 0; i < p->object_count; i++)
        if (p->objects[i].origin == origin) {
            *handle = p->objects[i].handle;
            return GW_STATUS_OK;
        }
    object *grown = realloc(p->objects, (p->object_count + 1) * sizeof *grown);
    if (!grown)
        return fail_memory();
    p->objects = grown;
    TRY(link_member(p, name, &code));
    *handle = gw_load_memory(code.data, code.size, &error);
    block_free(&code);
    if (!*handle)
        return fail_runtime(p->where, &error);
    p->objects[p->object_count++] = (object){origin, *handle};
    return GW_STATUS_OK;
}

static gw_status load_objects(package *p, const json *objects) {
    void *handle;
    JSON_EACH_KEY(name, objects) {
        if (!json_text(name + 1))
            return archive_damaged(&p->source, "a program names no shared object");
        TRY(load_object(p, json_text(name + 1), &handle));
    }
    return GW_STATUS_OK;
}

/* The shared object of a kernel: that of its module, or else any of the program. */
static gw_status object_of(package *p, const json *objects, const char *symbol, const char *module,
                           void **handle) {
    const char *own = json_text_of(objects, module);
    if (!*module)
        *handle = p->kernels;
    if (own)
        return load_object(p, own, handle);
    JSON_EACH_KEY(name, objects) {
        TRY(load_object(p, json_text(name + 1), handle));
        if (gw_symbol(*handle, symbol))
            return GW_STATUS_OK;
    }
    return GW_STATUS_OK;
}

static gw_status link_kernels(package *p, const json *objects, const json *kernels, gw_linked *linked) {
    int64_t number = 0;
    gw_error error = {0};
    TRY(load_objects(p, objects));
    JSON_EACH(kernel, kernels) {
        const char *symbol = json_text(json_first(kernel));
        const char *module = symbol ? json_text(json_next(kernel, json_first(kernel))) : NULL;
        void *handle = p->kernels;
        if (!module)
            return archive_damaged(&p->source, "a kernel has no name");
        if (*module)
            TRY(object_of(p, objects, symbol, module, &handle));
        if (!gw_linked_kernel(linked, number++, handle, module, symbol, &error))
            return fail_runtime(p->where, &error);
    }
    return GW_STATUS_OK;
}

/* ---- programs ---- */

static bool same_bindings(const infos *specs, const json *bindings) {
    size_t count = 0;
    if ((size_t)json_count(bindings) != specs->count)
        return false;
    JSON_EACH(binding, bindings) {
        const gw_tensor_info *info = &specs->at[count++];
        const json *name = json_first(binding), *dtype = name ? json_next(binding, name) : NULL;
        if (!json_text(name) || !json_text(dtype) || strcmp(json_text(name), info->name) != 0 ||
            strcmp(json_text(dtype), gw_dtype_name(info->dtype)) != 0)
            return false;
    }
    return true;
}

static bool same_states(const executable *program) {
    for (size_t i = 0; i < program->inputs.count; i++)
        if (program->linked.program->inputs[i].is_state != program->is_state[i])
            return false;
    return true;
}

static gw_status refuse_hosts(const package *p, const json *hosts) {
    char text[NAMES] = "";
    JSON_EACH(host, hosts) {
        size_t end = strlen(text);
        const char *op = json_text(json_first(host));
        snprintf(text + end, sizeof text - end, "%s%s", end ? ", " : "", op ? op : "?");
    }
    return fail(GW_STATUS_UNSUPPORTED, "%s runs nodes in Python, which the C interface does not support: %s",
                p->where, text);
}

static gw_status link_tasks(package *p, const json *target, const json *tasks, executable *program) {
    int64_t *words;
    size_t count;
    gw_error error = {0};
    if (json_count(json_member(tasks, "hosts")) > 0)
        return refuse_hosts(p, json_member(tasks, "hosts"));
    TRY(tasks_encode(tasks, &p->source, &words, &count));
    bool decoded =
        gw_linked_decode(&program->linked, words, count * sizeof *words, PLANS, &p->arenas, &error);
    free(words);
    if (!decoded)
        return fail_runtime(p->where, &error);
    if (!same_bindings(&program->inputs, json_member(tasks, "inputs")) ||
        !same_bindings(&program->outputs, json_member(tasks, "outputs")) || !same_states(program))
        return archive_damaged(&p->source,
                               "inputs, outputs or states of a program differ from those of its tasks");
    gw_linked_weights(&program->linked, p->task_weights, (int64_t)p->task_weight_bytes);
    return link_kernels(p, json_member(target, "objects"), json_member(tasks, "kernels"), &program->linked);
}

gw_status link_program(package *p, const json *entry, int64_t number, executable *program) {
    char name[NAMES];
    json_document tasks;
    const char *fault;
    const json *target = json_member(json_item(json_member(entry, "programs"), number), p->isa);
    int length = snprintf(name, sizeof name, "entries/%s/%" PRId64 "/%s/tasks.json",
                          json_text_of(entry, "name"), number, p->isa);
    if (!target || length >= (int)sizeof name)
        return archive_damaged(&p->source, "a program is missing");
    TRY(link_member(p, name, &program->tasks));
    if (!json_parse(&tasks, program->tasks.data, program->tasks.size, &fault))
        return archive_damaged(&p->source, fault);
    gw_status status = link_tasks(p, target, tasks.values, program);
    json_free(&tasks);
    return status;
}
