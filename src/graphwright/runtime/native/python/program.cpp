/* graphwright._native.Program: loads a program, makes plans and reports counters; run.cpp runs it. */
#include <algorithm>

#include "binding.hpp"

extern "C" {
#include "crash.h"
}

#ifdef __GLIBC__
#include <malloc.h>
#endif

[[noreturn]] void raise_feed(const char *what, int64_t index, const char *fault) {
    raise(errors.feed, nb::make_tuple(nb::str("{} {} {}").format(what, index, fault), index, -1));
}

nb::tuple shape_of(gw_list dims, const int64_t *registers) {
    nb::object shape = nb::steal(PyTuple_New(dims.count));
    for (int64_t i = 0; i < dims.count; i++)
        PyTuple_SET_ITEM(shape.ptr(), i, PyLong_FromLongLong(registers[dims.at[i]]));
    return nb::cast<nb::tuple>(shape);
}

void check_rank(const Program &p, int64_t input, int64_t rank) {
    if (rank == p.program->inputs[input].dims.count)
        return;
    nb::str text =
        nb::str("must have rank {}, but has rank {}").format(p.program->inputs[input].dims.count, rank);
    raise_feed("input", input, text.c_str());
}

void check_count(const char *what, int64_t found, int64_t expected) {
    if (found != expected)
        raise(errors.feed,
              nb::make_tuple(nb::str("{} {} given, expected {}").format(found, what, expected), -1, -1));
}

nb::object sequence(nb::handle object, const char *message) {
    PyObject *fast = PySequence_Fast(object.ptr(), message);
    if (!fast)
        throw nb::python_error();
    return nb::steal(fast);
}

nb::list list_of(const int64_t *values, int64_t count) {
    nb::list list;
    for (int64_t i = 0; i < count; i++)
        list.append(values[i]);
    return list;
}

int thread_count(int threads) {
    if (threads < 0)
        throw nb::value_error("threads must not be negative");
    if (threads == 0)
        return gw_pool_threads();
    return threads < GW_MAX_THREADS ? threads : GW_MAX_THREADS;
}

/* ---- programs ---- */

namespace {

std::vector<nb::object> list_of_objects(nb::handle given, const char *message) {
    std::vector<nb::object> made;
    for (nb::handle each : sequence(given, message))
        made.push_back(nb::borrow(each));
    return made;
}

PyArray_Descr *raw_dtype(int64_t item) {
    switch (item) {
    case 2: return PyArray_DescrFromType(NPY_UINT16);
    case 4: return PyArray_DescrFromType(NPY_UINT32);
    case 8: return PyArray_DescrFromType(NPY_UINT64);
    case 16: return PyArray_DescrFromType(NPY_COMPLEX128);
    default: return PyArray_DescrFromType(NPY_UINT8);
    }
}

} // namespace

Program::Program(nb::bytes words, nb::handle weights_, const std::vector<int64_t> &kernels_,
                 nb::handle hosts_, int plan_cache, nb::handle dtypes_, nb::handle libraries,
                 nb::handle arenas_, const std::vector<int64_t> &extents_)
    : gw_linked{}, hosts(list_of_objects(hosts_, "hosts must be a sequence")),
      kept(list_of_objects(libraries, "libraries must be a sequence")), output_dtypes(nb::borrow(dtypes_)) {
    gw_error error = {};
    kept.push_back(nb::borrow(arenas_));
    Arenas &arenas = arenas_.is_none() ? own_arenas : nb::cast<Arenas &>(arenas_);
    if (!gw_linked_decode(this, words.data(), words.size(), plan_cache > 0 ? plan_cache : 1, &arenas.pool,
                          &error))
        raise(error);
    try {
        link(kernels_, extents_);
        read_weights(weights_);
    } catch (...) {
        release();
        throw;
    }
}

void Program::link(const std::vector<int64_t> &kernels_, const std::vector<int64_t> &extents_) {
    if ((int64_t)kernels_.size() != program->kernel_count)
        throw nb::value_error("the number of kernels is not the program's");
    if (!extents_.empty() && extents_.size() != kernels_.size())
        throw nb::value_error("the number of extents is not that of the kernels");
    for (int64_t address : kernels_)
        if (address == 0)
            throw nb::value_error("a kernel's address is null");
    if ((int64_t)hosts.size() != program->host_count)
        throw nb::value_error("the number of host functions is not the program's");
    std::copy(kernels_.begin(), kernels_.end(), kernels);
    std::copy(extents_.begin(), extents_.end(), extents);
}

void Program::read_weights(nb::handle weights_) {
    if (PyObject_GetBuffer(weights_.ptr(), &weight_buffer, PyBUF_SIMPLE) != 0)
        throw nb::python_error();
    gw_linked_weights(this, weight_buffer.buf, weight_buffer.len);
}

void Program::watch_crashes(std::vector<std::string> given) {
    if ((int64_t)given.size() != program->task_count)
        throw nb::value_error("the number of sites is not that of the tasks");
    site_texts = std::move(given);
    sites.clear();
    for (const std::string &text : site_texts)
        sites.push_back(text.c_str());
    gw_watch_crashes();
}

void Program::make_dtypes() {
    need_numpy();
    std::vector<nb::object> made;
    if (output_dtypes.is_none())
        for (int64_t i = 0; i < program->output_count; i++)
            made.push_back(nb::steal((PyObject *)raw_dtype(program->outputs[i].item)));
    else
        for (nb::handle dtype : sequence(output_dtypes(), "dtypes must give a sequence")) {
            PyArray_Descr *found = nullptr;
            if (!PyArray_DescrConverter(dtype.ptr(), &found))
                throw nb::python_error();
            made.push_back(nb::steal((PyObject *)found));
        }
    if ((int64_t)made.size() != program->output_count)
        throw nb::value_error("the number of dtypes is not that of the outputs");
    for (size_t i = 0; i < made.size(); i++)
        if (PyDataType_ELSIZE((PyArray_Descr *)made[i].ptr()) != program->outputs[i].item)
            throw nb::value_error("the element size of a dtype differs from that of its output");
    if (!prepared) /* another thread may have prepared it meanwhile */
        dtypes.swap(made);
    prepared = true;
}

void Program::release() {
    gw_linked_free(this);
    if (weight_buffer.obj)
        PyBuffer_Release(&weight_buffer);
}

gw_plan *Program::must_plan(const int64_t *dims, int threads) {
    gw_error error = {};
    gw_plan *found = take_plan(dims, threads, &error);
    if (!found)
        raise(error);
    return found;
}

/* The inputs that tasks may write to. */
std::vector<int64_t> Program::states() const {
    std::vector<int64_t> found;
    for (int64_t i = 0; i < program->input_count; i++)
        if (program->inputs[i].is_state)
            found.push_back(i);
    return found;
}

nb::dict Program::plan(nb::handle shapes, int threads) {
    nb::object list = sequence(shapes, "input_shapes must be a sequence");
    check_count("input shapes", PySequence_Fast_GET_SIZE(list.ptr()), program->input_count);
    std::vector<int64_t> dims;
    for (int64_t i = 0; i < program->input_count; i++) {
        auto shape = nb::cast<std::vector<int64_t>>(nb::handle(PySequence_Fast_GET_ITEM(list.ptr(), i)));
        check_rank(*this, i, (int64_t)shape.size());
        for (int64_t dim : shape)
            if (dim < 0)
                raise_feed("input", i, "has a negative size");
        dims.insert(dims.end(), shape.begin(), shape.end());
    }
    gw_plan *p = must_plan(dims.data(), thread_count(threads));
    nb::dict result = plan_info(*this, p);
    gw_plan_release(p);
    return result;
}

nb::dict plan_info(const Program &program, const gw_plan *plan) {
    const gw_program *p = program.program;
    nb::dict result;
    nb::list outputs, chunks, grids, reads, writes;
    for (int64_t i = 0; i < p->output_count; i++)
        outputs.append(shape_of(p->outputs[i].dims, plan->registers));
    for (int64_t i = 0; i < p->task_count; i++) {
        int64_t read = 0, written = 0;
        gw_task_bytes(p, &program.links, plan, i, &read, &written);
        chunks.append(plan->steps[i].chunks);
        grids.append(plan->steps[i].grid);
        reads.append(read);
        writes.append(written);
    }
    result["registers"] = list_of(plan->registers, p->shape_count);
    result["arena"] = plan->arena_bytes;
    result["arena_held"] = gw_arena_held(plan->arena_bytes);
    result["bytes"] = plan->bytes;
    result["threads"] = plan->threads;
    result["sizes"] = list_of(plan->sizes, p->buffer_count);
    result["offsets"] = list_of(plan->offsets, p->buffer_count);
    result["chunks"] = chunks;
    result["grids"] = grids;
    result["read"] = reads;
    result["written"] = writes;
    result["outputs"] = outputs;
    return result;
}

nb::dict Program::stats() {
    nb::dict result;
    result["runs"] = runs.load();
    result["host_calls"] = host_calls.load();
    result["plans"] = plans.count;
    result["plan_hits"] = plans.hits;
    result["plan_misses"] = plans.misses;
    result["plan_evictions"] = plans.evictions;
    result["contexts"] = contexts.made;
    result["arena_bytes"] = contexts.arenas->bytes;
    return result;
}

int64_t Program::trim() {
    PyThreadState *state = PyEval_SaveThread();
    gw_context_pool_clear(&contexts);
    int64_t bytes = gw_arena_pool_clear(contexts.arenas) + free_spare_outputs();
    gw_plan_cache_clear(&plans);
#ifdef __GLIBC__
    malloc_trim(0); /* the allocator would keep the many small blocks of plans */
#endif
    enter_python(state);
    return bytes;
}
