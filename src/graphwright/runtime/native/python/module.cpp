/* graphwright._native: the bindings of the C runtime for Python. They only convert arguments and results. */
#include <pthread.h>
#include <unistd.h>

#include <cstring>

#define GRAPHWRIGHT_IMPORTS_NUMPY
#include "binding.hpp"

extern "C" {
#include "clock.h"
#include "cpu.h"
#include "hash.h"
#include "loader.h"
}

/* ---- errors ---- */

exceptions errors;

static PyObject *define_exception(nb::module_ &m, const char *name, const char *doc, PyObject *base) {
    std::string qualified = std::string("graphwright._native.") + name;
    PyObject *type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr);
    if (!type)
        throw nb::python_error();
    m.attr(name) = nb::handle(type);
    return type;
}

void define_exceptions(nb::module_ &m) {
    errors.base =
        define_exception(m, "NativeError", "Base of the native runtime's errors.", PyExc_RuntimeError);
    errors.program =
        define_exception(m, "ProgramError", "The encoded program is malformed: (text,).", errors.base);
    errors.feed = define_exception(m, "FeedError", "Arrays do not fit: (text, input or output, axis or -1).",
                                   errors.base);
    errors.check = define_exception(m, "CheckError",
                                    "A check of the shape program failed: (instruction, a, b).", errors.base);
    errors.plan = define_exception(m, "PlanError", "Sizes overflow or an operand leaves its buffer: (text,).",
                                   errors.base);
    errors.kernel = define_exception(
        m, "KernelError", "A kernel failed: (task, code), and of data: (..., number, least, most).",
        errors.base);
    errors.load = define_exception(m, "LoadError", "A shared object cannot be loaded: (text,).", errors.base);
}

[[noreturn]] void raise(PyObject *type, nb::object arguments) {
    PyErr_SetObject(type, arguments.ptr());
    throw nb::python_error();
}

[[noreturn]] void raise(const gw_error &e) {
    switch (e.kind) {
    case GW_E_PROGRAM: raise(errors.program, nb::make_tuple(e.text));
    case GW_E_FEED: raise(errors.feed, nb::make_tuple(e.text, e.a, e.b));
    case GW_E_CHECK: raise(errors.check, nb::make_tuple(e.a, e.b, e.c));
    case GW_E_PLAN: raise(errors.plan, nb::make_tuple(e.text));
    case GW_E_KERNEL:
        if (e.details[1] <= e.details[2])
            raise(errors.kernel, nb::make_tuple(e.a, e.b, e.details[0], e.details[1], e.details[2]));
        raise(errors.kernel, nb::make_tuple(e.a, e.b));
    case GW_E_LOAD: raise(errors.load, nb::make_tuple(e.text));
    case GW_E_MEMORY: raise(PyExc_MemoryError, nb::make_tuple(e.text));
    default: raise(errors.base, nb::make_tuple(e.text));
    }
}

/* ---- finalization of the interpreter ----
   A thread that requests the GIL during finalization is terminated by unwinding its stack, through frames
   that do not allow it. So such threads are suspended instead, as CPython 3.14 does. */

std::atomic<int> inside{0};
static std::atomic<bool> closing{false};
static pthread_t closing_thread;

void come_inside() {
    inside++;
    if (!closing || pthread_equal(pthread_self(), closing_thread))
        return;
    inside--;
    for (;;)
        pause();
}

/* Called at exit: lets no more threads take the GIL and waits for those that are about to, for a limited
   time, as a host function may hang. */
static void close_interpreter() {
    constexpr int64_t patience = 10'000'000'000;
    closing_thread = pthread_self();
    closing = true;
    for (int64_t start = gw_now(); inside > 0 && gw_now() - start < patience;) {
        nb::gil_scoped_release release;
        usleep(100);
    }
}

/* A forked process has only one thread. */
static void forget_threads() { inside = 0; }

void enter_python(PyThreadState *state) {
    come_inside();
    PyEval_RestoreThread(state);
    inside--;
}

void watch_interpreter() {
    pthread_atfork(nullptr, nullptr, forget_threads);
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(close_interpreter));
}

namespace {

/* ---- shared objects ---- */

struct Library {
    void *handle;
    explicit Library(void *handle_) : handle(handle_) {}
    Library(const Library &) = delete;
    Library &operator=(const Library &) = delete;
    ~Library() { gw_unload(handle); }

    uintptr_t symbol(const std::string &name) const {
        void *address = gw_symbol(handle, name.c_str());
        if (!address)
            throw nb::key_error(name.c_str());
        return (uintptr_t)address;
    }

    std::string text(const std::string &name) const { return (const char *)symbol(name); }
};

Library *new_library(void *handle, const gw_error &error) {
    if (!handle)
        raise(error);
    return new Library(handle);
}

Library *load_library(nb::bytes data) {
    gw_error error = {};
    void *handle = gw_load_memory(data.data(), data.size(), &error);
    return new_library(handle, error);
}

Library *open_library(const std::string &path) {
    gw_error error = {};
    void *handle = gw_load_file(path.c_str(), &error);
    return new_library(handle, error);
}

/* ---- the planner ---- */

nb::tuple plan_memory(const std::vector<int64_t> &sizes, const std::vector<std::vector<int64_t>> &conflicts,
                      bool often) {
    if (conflicts.size() != sizes.size())
        throw nb::value_error("sizes and conflicts must have the same length");
    std::vector<int64_t> starts{0}, flat, offsets(sizes.size() + 1);
    for (size_t i = 0; i < sizes.size(); i++) {
        for (int64_t other : conflicts[i]) {
            if (other < 0 || other >= (int64_t)i)
                throw nb::value_error("a conflict must name a buffer of lower number");
            flat.push_back(other);
        }
        starts.push_back((int64_t)flat.size());
    }
    gw_error error = {};
    int64_t arena = 0;
    if (!gw_plan_memory((int64_t)sizes.size(), sizes.data(), starts.data(), flat.data(),
                        often ? GW_PLACING_OFTEN : GW_PLACING_ONCE, offsets.data(), &arena, &error))
        raise(error);
    return nb::make_tuple(list_of(offsets.data(), (int64_t)sizes.size()), arena);
}

/* Bytes to hash, and their condensed form: the NH hashes of their chunks, then the bytes after the last
 * chunk. */
struct Content {
    Py_buffer view = {};
    nb::object condensed;
    explicit Content(nb::handle data) {
        if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_SIMPLE) != 0)
            throw nb::python_error();
        condensed = nb::steal(PyBytes_FromStringAndSize(nullptr, (Py_ssize_t)(head() + tail())));
        if (!condensed.is_valid())
            throw nb::python_error();
    }
    Content(Content &&other) : view(other.view), condensed(std::move(other.condensed)) { other.view = {}; }
    ~Content() {
        if (view.obj)
            PyBuffer_Release(&view);
    }
    size_t chunks() const { return (size_t)view.len / GW_HASH_CHUNK; }
    size_t head() const { return chunks() * GW_HASH_WORDS * sizeof(uint64_t); }
    size_t tail() const { return (size_t)view.len % GW_HASH_CHUNK; }
    /* Needs no GIL. */
    void condense(bool mapped) {
        char *words = PyBytes_AS_STRING(condensed.ptr());
        gw_hash_chunks(view.buf, chunks(), mapped, (uint64_t *)words);
        memcpy(words + head(), (const char *)view.buf + chunks() * GW_HASH_CHUNK, tail());
    }
};

nb::list condense_all(nb::handle given, bool mapped) {
    std::vector<Content> contents;
    for (nb::handle data : sequence(given, "data must be a sequence"))
        contents.emplace_back(data);
    nb::list result;
    {
        nb::gil_scoped_release release; /* once for all contents, as getting the GIL again may take long */
        for (Content &content : contents)
            content.condense(mapped);
    }
    for (Content &content : contents)
        result.append(content.condensed);
    return result;
}

void set_threads(int threads) {
    if (threads < 0)
        throw nb::value_error("threads must not be negative");
    gw_pool_set_threads(threads);
}

int import_numpy() {
    import_array1(-1);
    return 0;
}

} // namespace

void need_numpy() {
    static bool imported = false;
    if (!imported && import_numpy() != 0)
        throw nb::python_error();
    imported = true;
}

NB_MODULE(_native, m) {
    static PyObject *first; /* types are registered once for a process */
    if (first) {            /* a program removed the module from sys.modules and imports it again */
        m.attr("__dict__").attr("update")(nb::handle(first).attr("__dict__"));
        return;
    }
    first = nb::handle(m).inc_ref().ptr();
    nb::set_leak_warnings(false); /* threads suspended at finalization keep their objects alive */
    define_exceptions(m);
    m.def("isa", gw_cpu_isa);
    m.def("has_bf16", [] { return gw_cpu_has_bf16() != 0; });
    m.def("has_fast_bf16", [] { return gw_cpu_has_fast_bf16() != 0; });
    m.def("cpu_count", gw_cpu_count);
    m.def("threads", gw_pool_threads);
    m.def("set_threads", set_threads, nb::arg("threads"));
    m.def("workers", gw_pool_workers);
    m.def("plan_memory", plan_memory, nb::arg("sizes"), nb::arg("conflicts"), nb::arg("often") = false);
    m.def("condense_all", condense_all, nb::arg("data"), nb::arg("mapped") = false);
    m.def("load_library", load_library, nb::arg("data"));
    m.def("open_library", open_library, nb::arg("path"));
    nb::class_<Library>(m, "Library")
        .def("symbol", &Library::symbol, nb::arg("name"))
        .def("text", &Library::text, nb::arg("name"));
    nb::class_<Arenas>(m, "Arenas").def(nb::init<>()).def_prop_ro("bytes", &Arenas::bytes);
    nb::class_<Program>(m, "Program")
        .def(nb::init<nb::bytes, nb::handle, std::vector<int64_t>, nb::handle, int, nb::handle, nb::handle,
                      nb::handle, std::vector<int64_t>>(),
             nb::arg("words"), nb::arg("weights"), nb::arg("kernels"), nb::arg("hosts") = nb::tuple(),
             nb::arg("plan_cache") = 16, nb::arg("dtypes") = nb::none(), nb::arg("libraries") = nb::tuple(),
             nb::arg("arenas") = nb::none(), nb::arg("extents") = std::vector<int64_t>())
        .def_rw("about", &Program::about, nb::arg().none())
        .def("watch_crashes", &Program::watch_crashes, nb::arg("sites"))
        .def("plan", &Program::plan, nb::arg("input_shapes"), nb::arg("threads") = 1)
        .def("run", &Program::run, nb::arg("inputs"), nb::arg("outputs") = nb::none(), nb::arg("threads") = 0,
             nb::arg("poison") = false)
        .def("stats", &Program::stats)
        .def_prop_ro("states", &Program::states)
        .def("trim", &Program::trim);
    define_crash_run(m);
    define_dlpack(m);
    define_fast_path(m);
    define_events(m);
    define_tensor_fast_path(m);
    define_native_loop(m);
    watch_interpreter();
}
