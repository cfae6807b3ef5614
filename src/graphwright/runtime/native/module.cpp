/* graphwright._native: the C runtime for Python. What is here converts arguments; what it does lies in the C
   files. */
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <vector>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <numpy/arrayobject.h>

extern "C" {
#include "arena.h"
#include "clock.h"
#include "cpu.h"
#include "exec.h"
#include "loader.h"
#include "pool.h"
#include "shape.h"
}

namespace nb = nanobind;

namespace {

/* ---- errors ---- */

struct exceptions {
    PyObject *base, *program, *feed, *check, *plan, *kernel, *load;
} errors;

PyObject *define_exception(nb::module_ &m, const char *name, const char *doc, PyObject *base) {
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
    errors.kernel = define_exception(m, "KernelError", "A kernel failed: (task, code).", errors.base);
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
    case GW_E_KERNEL: raise(errors.kernel, nb::make_tuple(e.a, e.b));
    case GW_E_LOAD: raise(errors.load, nb::make_tuple(e.text));
    case GW_E_MEMORY: raise(PyExc_MemoryError, nb::make_tuple(e.text));
    default: raise(errors.base, nb::make_tuple(e.text));
    }
}

[[noreturn]] void raise_feed(const char *what, int64_t index, const char *fault) {
    raise(errors.feed, nb::make_tuple(nb::str("{} {} {}").format(what, index, fault), index, -1));
}

/* ---- the interpreter's end ----
   A thread that asks for the GIL when the interpreter ends is terminated, by unwinding through frames that do
   not allow it. So from the first moment of the end such threads are put to sleep instead, as CPython 3.14
   does. */

std::atomic<int> inside{0}; /* threads that ask for the GIL or are in a host function */
std::atomic<bool> closing{false};
pthread_t closing_thread;

void come_inside() {
    inside++;
    if (!closing || pthread_equal(pthread_self(), closing_thread))
        return;
    inside--;
    for (;;)
        pause();
}

/* Called at exit: lets no one in any more, and waits for who is inside; not for ever, a host function may
   hang. */
void close_interpreter() {
    constexpr int64_t patience = 10'000'000'000;
    closing_thread = pthread_self();
    closing = true;
    for (int64_t start = gw_now(); inside > 0 && gw_now() - start < patience;) {
        nb::gil_scoped_release release;
        usleep(100);
    }
}

/* Of a forked process's threads one goes on. */
void forget_threads() { inside = 0; }

void enter_python(PyThreadState *state) {
    come_inside();
    PyEval_RestoreThread(state);
    inside--;
}

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

/* ---- arrays ---- */

/* The memory of an array or of an object with the buffer protocol, kept alive. */
struct View {
    void *data = nullptr;
    int64_t bytes = 0;
    int rank = 0;
    const Py_ssize_t *dims = nullptr;
    PyObject *array = nullptr;
    Py_buffer buffer = {};

    View() = default;
    View(const View &) = delete;
    View &operator=(const View &) = delete;
    ~View() {
        Py_XDECREF(array);
        if (buffer.obj)
            PyBuffer_Release(&buffer);
    }

    /* nullptr, or what is wrong with it. */
    const char *open(PyObject *object, bool writable) {
        if (PyArray_Check(object))
            return open_array((PyArrayObject *)object, writable);
        if (PyObject_GetBuffer(object, &buffer,
                               PyBUF_ND | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)) != 0) {
            PyErr_Clear();
            return "is neither an array nor a contiguous buffer that may be used so";
        }
        data = buffer.buf, bytes = buffer.len, rank = buffer.ndim, dims = buffer.shape;
        return nullptr;
    }

    const char *open_array(PyArrayObject *a, bool writable) {
        static_assert(sizeof(npy_intp) == sizeof(Py_ssize_t));
        if (!PyArray_IS_C_CONTIGUOUS(a))
            return "is not contiguous";
        if (writable && !PyArray_ISWRITEABLE(a))
            return "is read-only";
        if (PyDataType_REFCHK(PyArray_DESCR(a)))
            return "holds objects";
        array = Py_NewRef((PyObject *)a);
        data = PyArray_DATA(a), bytes = PyArray_NBYTES(a), rank = PyArray_NDIM(a), dims = PyArray_DIMS(a);
        return nullptr;
    }
};

nb::object sequence(nb::handle object, const char *message) {
    PyObject *fast = PySequence_Fast(object.ptr(), message);
    if (!fast)
        throw nb::python_error();
    return nb::steal(fast);
}

nb::tuple shape_of(gw_list dims, const int64_t *registers) {
    nb::object shape = nb::steal(PyTuple_New(dims.count));
    for (int64_t i = 0; i < dims.count; i++)
        PyTuple_SET_ITEM(shape.ptr(), i, PyLong_FromLongLong(registers[dims.at[i]]));
    return nb::cast<nb::tuple>(shape);
}

nb::list list_of(const int64_t *values, int64_t count) {
    nb::list list;
    for (int64_t i = 0; i < count; i++)
        list.append(values[i]);
    return list;
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

/* ---- programs ---- */

struct Program;

/* What a run's host functions need, and the first exception that one raised. */
struct HostCalls {
    Program *program;
    PyObject *exception = nullptr;
};

struct Program {
    gw_program *program = nullptr;
    Py_buffer weights = {};
    std::vector<int64_t> kernels;
    std::vector<nb::object> hosts, kept;
    std::vector<PyObject *> dtypes; /* of outputs */
    gw_plan_cache plans = {};
    gw_context_pool contexts = {};
    std::atomic<int64_t> runs{0}, host_calls{0};

    Program(nb::bytes words, nb::handle weights_, std::vector<int64_t> kernels_, nb::handle hosts_,
            int plan_cache, nb::handle dtypes_, nb::handle libraries)
        : kernels(std::move(kernels_)) {
        gw_error error = {};
        program = gw_program_decode(words.data(), words.size(), &error);
        if (!program)
            raise(error);
        try {
            link(weights_, hosts_, plan_cache, dtypes_, libraries);
        } catch (...) {
            release();
            throw;
        }
    }
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;
    ~Program() { release(); }

    void link(nb::handle weights_, nb::handle hosts_, int plan_cache, nb::handle dtypes_,
              nb::handle libraries) {
        if ((int64_t)kernels.size() != program->kernel_count)
            throw nb::value_error("the number of kernels is not the program's");
        for (int64_t address : kernels)
            if (address == 0)
                throw nb::value_error("a kernel's address is null");
        for (nb::handle host : sequence(hosts_, "hosts must be a sequence"))
            hosts.push_back(nb::borrow(host));
        if ((int64_t)hosts.size() != program->host_count)
            throw nb::value_error("the number of host functions is not the program's");
        for (nb::handle library : sequence(libraries, "libraries must be a sequence"))
            kept.push_back(nb::borrow(library));
        set_dtypes(dtypes_);
        plans.bound = plan_cache > 0 ? plan_cache : 1;
        contexts.bound = gw_pool_threads() < 4 ? 4 : gw_pool_threads();
        if (PyObject_GetBuffer(weights_.ptr(), &weights, PyBUF_SIMPLE) != 0)
            throw nb::python_error();
    }

    void set_dtypes(nb::handle given) {
        if (given.is_none()) {
            for (int64_t i = 0; i < program->output_count; i++)
                dtypes.push_back((PyObject *)raw_dtype(program->outputs[i].item));
            return;
        }
        nb::object list = sequence(given, "dtypes must be a sequence");
        for (nb::handle dtype : list) {
            PyArray_Descr *found = nullptr;
            if (!PyArray_DescrConverter(dtype.ptr(), &found))
                throw nb::python_error();
            dtypes.push_back((PyObject *)found);
        }
        if ((int64_t)dtypes.size() != program->output_count)
            throw nb::value_error("the number of dtypes is not that of the outputs");
        for (size_t i = 0; i < dtypes.size(); i++)
            if (PyDataType_ELSIZE((PyArray_Descr *)dtypes[i]) != program->outputs[i].item)
                throw nb::value_error("a dtype has not the element size of its output");
    }

    void release() {
        gw_context_pool_clear(&contexts);
        gw_plan_cache_clear(&plans);
        gw_program_free(program);
        program = nullptr;
        for (PyObject *dtype : dtypes)
            Py_DECREF(dtype);
        dtypes.clear();
        if (weights.obj)
            PyBuffer_Release(&weights);
    }

    gw_plan *take_plan(const int64_t *dims, int threads) {
        gw_error error = {};
        gw_links links = {weights.len, kernels.data()};
        gw_plan *found = gw_plan_take(&plans, program, &links, dims, threads, &error);
        if (!found)
            raise(error);
        return found;
    }

    nb::dict plan(nb::handle shapes, int threads);
    nb::list run(nb::handle inputs, nb::handle outputs, int threads, bool poison, nb::handle trace);
    nb::dict stats();
    int32_t call_host(HostCalls *calls, const gw_plan *plan, int64_t task, void *const *operands);
};

int thread_count(int threads) {
    if (threads < 0)
        throw nb::value_error("threads must not be negative");
    if (threads == 0)
        return gw_pool_threads();
    return threads < GW_MAX_THREADS ? threads : GW_MAX_THREADS;
}

void check_rank(const Program &p, int64_t input, int64_t rank) {
    if (rank == p.program->inputs[input].dims.count)
        return;
    nb::str text = nb::str("has {} axes, expected {}").format(rank, p.program->inputs[input].dims.count);
    raise_feed("input", input, text.c_str());
}

void check_count(const char *what, int64_t found, int64_t expected) {
    if (found != expected)
        raise(errors.feed,
              nb::make_tuple(nb::str("{} {} given, expected {}").format(found, what, expected), -1, -1));
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
    gw_plan *p = take_plan(dims.data(), thread_count(threads));
    nb::dict result;
    nb::list outputs, chunks;
    for (int64_t i = 0; i < program->output_count; i++)
        outputs.append(shape_of(program->outputs[i].dims, p->registers));
    for (int64_t i = 0; i < program->task_count; i++)
        chunks.append(p->steps[i].chunks);
    result["registers"] = list_of(p->registers, program->shape_count);
    result["arena"] = p->arena_bytes;
    result["sizes"] = list_of(p->sizes, program->buffer_count);
    result["offsets"] = list_of(p->offsets, program->buffer_count);
    result["chunks"] = chunks;
    result["outputs"] = outputs;
    gw_plan_release(p);
    return result;
}

nb::dict Program::stats() {
    nb::dict result;
    result["runs"] = runs.load();
    result["host_calls"] = host_calls.load();
    result["plans"] = plans.count;
    result["plan_hits"] = plans.hits;
    result["plan_misses"] = plans.misses;
    result["contexts"] = contexts.made;
    return result;
}

/* ---- host functions ---- */

/* (memory, shape) of one operand, or None. */
nb::object host_operand(const gw_host_operand &o, const gw_plan *plan, void *data, bool writable) {
    if (o.item == 0)
        return nb::none();
    int64_t bytes = 0;
    gw_dense_bytes(o.item, o.dims, plan->registers, &bytes);
    static char empty[1];
    nb::object memory = nb::steal(
        PyMemoryView_FromMemory(data ? (char *)data : empty, bytes, writable ? PyBUF_WRITE : PyBUF_READ));
    if (!memory.is_valid())
        throw nb::python_error();
    return nb::make_tuple(memory, shape_of(o.dims, plan->registers));
}

int32_t Program::call_host(HostCalls *calls, const gw_plan *plan, int64_t task, void *const *operands) {
    const gw_task &t = program->tasks[task];
    const gw_host_function &h = program->hosts[t.kernel];
    come_inside();
    PyGILState_STATE state = PyGILState_Ensure();
    host_calls++;
    int32_t code = 0;
    try {
        nb::list inputs, outputs;
        for (int64_t i = 0; i < h.count; i++)
            (i < h.input_count ? inputs : outputs)
                .append(host_operand(h.operands[i], plan, operands[i], i >= h.input_count));
        hosts[(size_t)t.kernel](inputs, outputs);
    } catch (nb::python_error &e) {
        e.restore();
        code = 1;
    } catch (const std::exception &e) {
        PyErr_SetString(errors.base, e.what());
        code = 1;
    }
    if (code != 0 && !calls->exception) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        if (trace)
            PyException_SetTraceback(value, trace);
        Py_XDECREF(type), Py_XDECREF(trace);
        calls->exception = value;
    }
    PyErr_Clear();
    PyGILState_Release(state);
    inside--;
    return code;
}

int32_t host_trampoline(void *host, const gw_plan *plan, int64_t task, void *const *operands) {
    auto *calls = static_cast<HostCalls *>(host);
    return calls->program->call_host(calls, plan, task, operands);
}

/* ---- a run ---- */

/* Everything that one run holds, let go in the end however it ends. */
struct Run {
    Program &p;
    std::vector<View> inputs, outputs;
    std::vector<void *> input_data, output_data;
    View trace;
    nb::list result;
    gw_plan *plan = nullptr;
    gw_context *context = nullptr;

    explicit Run(Program &p_) : p(p_), inputs(p_.program->input_count), outputs(p_.program->output_count) {}
    ~Run() {
        if (context)
            gw_context_give(&p.contexts, context);
        if (plan)
            gw_plan_release(plan);
    }

    void open_inputs(nb::handle given, int threads) {
        nb::object list = sequence(given, "inputs must be a sequence");
        check_count("inputs", PySequence_Fast_GET_SIZE(list.ptr()), p.program->input_count);
        std::vector<int64_t> dims;
        dims.reserve((size_t)p.program->input_dim_count);
        for (size_t i = 0; i < inputs.size(); i++) {
            if (const char *fault = inputs[i].open(PySequence_Fast_GET_ITEM(list.ptr(), i), false))
                raise_feed("input", (int64_t)i, fault);
            check_rank(p, (int64_t)i, inputs[i].rank);
            dims.insert(dims.end(), inputs[i].dims, inputs[i].dims + inputs[i].rank);
            input_data.push_back(inputs[i].data);
        }
        plan = p.take_plan(dims.data(), threads);
        for (size_t i = 0; i < inputs.size(); i++)
            if (inputs[i].bytes != plan->input_bytes[i])
                raise_feed("input", (int64_t)i, "has elements of another size");
    }

    nb::object new_output(size_t i) const {
        gw_list dims = p.program->outputs[i].dims;
        npy_intp shape[GW_MAX_RANK];
        for (int64_t axis = 0; axis < dims.count; axis++)
            shape[axis] = plan->registers[dims.at[axis]];
        auto *dtype = (PyArray_Descr *)Py_NewRef(p.dtypes[i]);
        nb::object array = nb::steal(
            PyArray_NewFromDescr(&PyArray_Type, dtype, (int)dims.count, shape, nullptr, nullptr, 0, nullptr));
        if (!array.is_valid())
            throw nb::python_error();
        return array;
    }

    bool has_shape(PyArrayObject *array, size_t i) const {
        gw_list dims = p.program->outputs[i].dims;
        if (PyArray_NDIM(array) != dims.count)
            return false;
        for (int axis = 0; axis < dims.count; axis++)
            if (PyArray_DIM(array, axis) != plan->registers[dims.at[axis]])
                return false;
        return true;
    }

    /* Given or new; the shape of a buffer that is no array is the caller's affair. */
    void open_outputs(nb::handle given) {
        nb::object list =
            given.is_none() ? nb::object() : sequence(given, "outputs must be a sequence or None");
        if (list.is_valid())
            check_count("outputs", PySequence_Fast_GET_SIZE(list.ptr()), p.program->output_count);
        for (size_t i = 0; i < outputs.size(); i++) {
            PyObject *item = list.is_valid() ? PySequence_Fast_GET_ITEM(list.ptr(), i) : Py_None;
            nb::object output = item == Py_None ? new_output(i) : nb::borrow(item);
            if (const char *fault = outputs[i].open(output.ptr(), true))
                raise_feed("output", (int64_t)i, fault);
            if (outputs[i].bytes != plan->output_bytes[i])
                raise_feed("output", (int64_t)i, "has not the bytes that the model writes");
            if (PyArray_Check(output.ptr()) && !has_shape((PyArrayObject *)output.ptr(), i))
                raise_feed("output", (int64_t)i, "has another shape than the model gives");
            output_data.push_back(outputs[i].data);
            result.append(output);
        }
    }

    int64_t *open_trace(nb::handle given) {
        if (given.is_none())
            return nullptr;
        if (trace.open(given.ptr(), true) || trace.bytes != p.program->task_count * GW_TRACE_WORDS * 8)
            throw nb::value_error("trace must be a writable int64 array of shape (tasks, 3)");
        return static_cast<int64_t *>(trace.data);
    }

    void execute(bool poison, int64_t *times) {
        gw_error error = {};
        HostCalls calls = {&p};
        context = gw_context_take(&p.contexts, p.program, plan, &error);
        if (!context)
            raise(error);
        gw_call call = {p.program,
                        plan,
                        context,
                        p.kernels.data(),
                        p.weights.buf,
                        input_data.data(),
                        output_data.data(),
                        host_trampoline,
                        &calls,
                        poison,
                        times};
        p.runs++;
        PyThreadState *state = PyEval_SaveThread();
        bool done = gw_execute(&call, &error);
        enter_python(state);
        if (calls.exception) {
            PyErr_SetObject((PyObject *)Py_TYPE(calls.exception), calls.exception);
            Py_DECREF(calls.exception);
            throw nb::python_error();
        }
        if (!done)
            raise(error);
    }
};

nb::list Program::run(nb::handle inputs, nb::handle outputs, int threads, bool poison, nb::handle trace) {
    Run run(*this);
    run.open_inputs(inputs, thread_count(threads));
    run.open_outputs(outputs);
    run.execute(poison, run.open_trace(trace));
    return run.result;
}

/* ---- the planner ---- */

nb::tuple plan_memory(const std::vector<int64_t> &sizes, const std::vector<std::vector<int64_t>> &conflicts) {
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
    if (!gw_plan_memory((int64_t)sizes.size(), sizes.data(), starts.data(), flat.data(), offsets.data(),
                        &arena, &error))
        raise(error);
    return nb::make_tuple(list_of(offsets.data(), (int64_t)sizes.size()), arena);
}

void set_threads(int threads) {
    if (threads < 1)
        throw nb::value_error("threads must be at least 1");
    gw_pool_set_threads(threads);
}

int import_numpy() {
    import_array1(-1);
    return 0;
}

} // namespace

NB_MODULE(_native, m) {
    if (import_numpy() != 0)
        throw nb::python_error();
    nb::set_leak_warnings(false); /* threads that sleep at the interpreter's end hold what they used */
    define_exceptions(m);
    m.def("isa", gw_cpu_isa);
    m.def("cpu_count", gw_cpu_count);
    m.def("threads", gw_pool_threads);
    m.def("set_threads", set_threads, nb::arg("threads"));
    m.def("workers", gw_pool_workers);
    m.def("plan_memory", plan_memory, nb::arg("sizes"), nb::arg("conflicts"));
    m.def("load_library", load_library, nb::arg("data"));
    m.def("open_library", open_library, nb::arg("path"));
    nb::class_<Library>(m, "Library").def("symbol", &Library::symbol, nb::arg("name"));
    nb::class_<Program>(m, "Program")
        .def(nb::init<nb::bytes, nb::handle, std::vector<int64_t>, nb::handle, int, nb::handle, nb::handle>(),
             nb::arg("words"), nb::arg("weights"), nb::arg("kernels"), nb::arg("hosts") = nb::tuple(),
             nb::arg("plan_cache") = 16, nb::arg("dtypes") = nb::none(), nb::arg("libraries") = nb::tuple())
        .def("plan", &Program::plan, nb::arg("input_shapes"), nb::arg("threads") = 1)
        .def("run", &Program::run, nb::arg("inputs"), nb::arg("outputs") = nb::none(), nb::arg("threads") = 0,
             nb::arg("poison") = false, nb::arg("trace") = nb::none())
        .def("stats", &Program::stats);
    pthread_atfork(nullptr, nullptr, forget_threads);
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(close_interpreter));
}
