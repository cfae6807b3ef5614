/* Declarations shared by the parts of graphwright._native: errors, interpreter shutdown, programs and their
 * runs. */
#pragma once
#include <atomic>
#include <vector>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL graphwright_numpy
#ifndef GRAPHWRIGHT_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <numpy/arrayobject.h>

extern "C" {
#include "arena.h"
#include "exec.h"
#include "extent.h"
#include "linked.h"
#include "pool.h"
#include "shape.h"
}

namespace nb = nanobind;

/* ---- errors ---- */

struct exceptions {
    PyObject *base, *program, *feed, *check, *plan, *kernel, *load;
};
extern exceptions errors;

void define_exceptions(nb::module_ &m);
[[noreturn]] void raise(PyObject *type, nb::object arguments);
[[noreturn]] void raise(const gw_error &e);
/* The error for `what` ("input" or "output") number `index`, or of none of them for -1. */
[[noreturn]] void raise_feed(const char *what, int64_t index, const char *fault);

/* ---- interpreter shutdown ---- */

extern std::atomic<int> inside; /* threads that ask for the GIL or are in a host function */

/* Must be called before a thread asks for the GIL, or does something during which the interpreter must not
   end; afterwards `inside--`. */
void come_inside();
void enter_python(PyThreadState *state);
void watch_interpreter();

/* ---- NumPy ---- */

/* Imports NumPy; must be called before its API is used. Loading a program does not need it. */
void need_numpy();

/* A new array of so many bytes; takes ownership of `dtype`. Large arrays reuse the memory of freed ones.
 */
PyObject *new_array(PyArray_Descr *dtype, int rank, npy_intp *shape, int64_t bytes);
/* Frees the memory that is kept for large arrays; returns its bytes. */
int64_t free_spare_outputs();

/* ---- programs ---- */

nb::object sequence(nb::handle object, const char *message);
nb::list list_of(const int64_t *values, int64_t count);

/* The shape with these registers as dims. */
nb::tuple shape_of(gw_list dims, const int64_t *registers);

/* 0: the number of threads of the process. */
int thread_count(int threads);

/* The arenas of one program, or of several that mostly run one at a time. */
struct Arenas {
    gw_arena_pool pool = {};

    Arenas() { pool.bound = gw_pool_threads() < 4 ? 4 : gw_pool_threads(); }
    Arenas(const Arenas &) = delete;
    Arenas &operator=(const Arenas &) = delete;
    ~Arenas() { gw_arena_pool_clear(&pool); }

    int64_t bytes() const { return pool.bytes; }
};

/* A linked program, with the objects of Python that it needs. */
struct Program : gw_linked {
    Py_buffer weight_buffer = {};
    std::vector<nb::object> hosts, kept;
    std::vector<std::string> site_texts;
    std::vector<const char *> sites; /* of each task; empty where crashes are not watched */
    nb::object output_dtypes;        /* a function, or None */
    std::vector<nb::object> dtypes;  /* of outputs; made by `prepare` */
    bool prepared = false;
    nb::object about = nb::none(); /* passed to readers of events together with its plans */
    Arenas own_arenas;
    std::atomic<int64_t> runs{0}, host_calls{0};

    Program(nb::bytes words, nb::handle weights_, const std::vector<int64_t> &kernels_, nb::handle hosts_,
            int plan_cache, nb::handle dtypes_, nb::handle libraries, nb::handle arenas_,
            const std::vector<int64_t> &extents_);
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;
    ~Program() { release(); }

    /* Before the first run: imports NumPy and makes the dtypes. */
    void prepare() {
        if (!prepared)
            make_dtypes();
    }

    nb::dict plan(nb::handle shapes, int threads);
    nb::list run(nb::handle inputs, nb::handle outputs, int threads, bool poison);
    nb::dict stats();
    std::vector<int64_t> states() const;
    int64_t trim();
    /* `given`: for each task, the text that a crash in its kernel prints. No run may be in progress. */
    void watch_crashes(std::vector<std::string> given);

    /* NULL, and the error, if there is none. */
    gw_plan *take_plan(const int64_t *dims, int threads, gw_error *error) {
        return gw_linked_plan(this, dims, threads, error);
    }
    gw_plan *must_plan(const int64_t *dims, int threads);

    void link(const std::vector<int64_t> &kernels_, const std::vector<int64_t> &extents_);
    void read_weights(nb::handle weights_);
    void make_dtypes();
    void release();
};

/* Raise a FeedError if an input has another rank, or a sequence another length, than the program needs. */
void check_rank(const Program &p, int64_t input, int64_t rank);
void check_count(const char *what, int64_t found, int64_t expected);

/* A new array for output `i`; NULL, and a Python error, if there is no memory. */
PyObject *new_output(const Program &p, const gw_plan *plan, int64_t i);

/* Runs a plan; the GIL is held and, unless the run is short, released meanwhile. False: `error` says why, or
   the Python error that a host function raised is set. */
bool run_plan(Program &p, const gw_plan *plan, void *const *inputs, void *const *outputs, bool poison,
              gw_error *error);
/* The numbers of a plan, as Python sees them. */
nb::dict plan_info(const Program &p, const gw_plan *plan);

/* ---- events ---- */

/* Saves the numbers of a plan for readers of events, once per recording. */
void note_plan(const Program &p, const gw_plan *plan);
void define_events(nb::module_ &m);

/* ---- crashes ---- */

void define_crash_run(nb::module_ &m);

/* ---- fast paths ---- */

void define_dlpack(nb::module_ &m);
void define_fast_path(nb::module_ &m);
void define_tensor_fast_path(nb::module_ &m);

/* ---- loops ---- */

void define_native_loop(nb::module_ &m);
