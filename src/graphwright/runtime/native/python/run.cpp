/* Runs of a program on Python arrays and buffers, and the Python functions that it calls. */
#include "binding.hpp"

extern "C" {
#include "crash.h"
}

namespace {

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

    /* nullptr, or the reason why it cannot be used. */
    const char *open(PyObject *object, bool writable) {
        if (PyArray_Check(object))
            return open_array((PyArrayObject *)object, writable);
        if (PyObject_GetBuffer(object, &buffer,
                               PyBUF_ND | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)) != 0) {
            PyErr_Clear();
            return "is neither an array nor a contiguous buffer";
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

/* ---- host functions ---- */

/* What the host functions of a run need, and the first exception that one of them raised. */
struct HostCalls {
    Program *program;
    PyObject *exception = nullptr;
};

/* (memory, shape) of an operand, or None. */
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

/* Keeps the current exception if it is the first. */
void keep_exception(HostCalls *calls) {
    if (!calls->exception) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        if (trace)
            PyException_SetTraceback(value, trace);
        Py_XDECREF(type), Py_XDECREF(trace);
        calls->exception = value;
    }
    PyErr_Clear();
}

bool is_interrupted(void *host) {
    come_inside();
    PyGILState_STATE state = PyGILState_Ensure();
    bool raised = PyErr_CheckSignals() != 0;
    if (raised)
        keep_exception(static_cast<HostCalls *>(host));
    PyGILState_Release(state);
    inside--;
    return raised;
}

int32_t call_host(void *host, const gw_plan *plan, int64_t task, void *const *operands) {
    auto *calls = static_cast<HostCalls *>(host);
    Program &p = *calls->program;
    const gw_task &t = p.program->tasks[task];
    const gw_host_function &h = p.program->hosts[t.kernel];
    come_inside();
    PyGILState_STATE state = PyGILState_Ensure();
    p.host_calls++;
    int32_t code = 0;
    try {
        nb::list inputs, outputs;
        for (int64_t i = 0; i < h.count; i++)
            (i < h.input_count ? inputs : outputs)
                .append(host_operand(h.operands[i], plan, operands[i], i >= h.input_count));
        p.hosts[(size_t)t.kernel](inputs, outputs);
    } catch (nb::python_error &e) {
        e.restore();
        code = 1;
    } catch (const std::exception &e) {
        PyErr_SetString(errors.base, e.what());
        code = 1;
    }
    if (code != 0)
        keep_exception(calls);
    PyGILState_Release(state);
    inside--;
    return code;
}

} // namespace

/* ---- a run ---- */

PyObject *new_output(const Program &p, const gw_plan *plan, int64_t i) {
    gw_list dims = p.program->outputs[i].dims;
    npy_intp shape[GW_MAX_RANK];
    for (int64_t axis = 0; axis < dims.count; axis++)
        shape[axis] = plan->registers[dims.at[axis]];
    auto *dtype = (PyArray_Descr *)Py_NewRef(p.dtypes[(size_t)i].ptr());
    PyObject *array = new_array(dtype, (int)dims.count, shape, plan->output_bytes[i]);
    if (!array &&
        PyErr_ExceptionMatches(
            PyExc_ValueError)) /* NumPy ignores sizes of 0 when it counts bytes, which may overflow */
        PyErr_SetString(PyExc_MemoryError, "an output has more elements than NumPy can address");
    return array;
}

bool run_plan(Program &p, const gw_plan *plan, void *const *inputs, void *const *outputs, bool poison,
              gw_error *error) {
    HostCalls calls = {&p};
    gw_recording *recording = gw_recording_take();
    if (recording)
        note_plan(p, plan);
    gw_call call = {};
    call.plan = plan, call.inputs = inputs, call.outputs = outputs;
    call.host = call_host, call.interrupted = is_interrupted, call.host_data = &calls;
    call.poison = poison;
    call.recording = recording;
    if (!p.sites.empty())
        call.sites = p.sites.data(), call.crash_run = gw_current_crash_run();
    p.runs++;
    /* releasing and retaking the GIL may take longer than a brief run */
    PyThreadState *state = plan->brief ? nullptr : PyEval_SaveThread();
    bool done = gw_linked_run(&p, &call, error);
    if (state)
        enter_python(state);
    gw_recording_release(recording);
    if (calls.exception) {
        PyErr_SetObject((PyObject *)Py_TYPE(calls.exception), calls.exception);
        Py_DECREF(calls.exception);
        return false;
    }
    return done;
}

namespace {

/* The resources of a run, released however it ends. */
struct Run {
    Program &p;
    std::vector<View> inputs, outputs;
    std::vector<void *> input_data, output_data;
    nb::list result;
    gw_plan *plan = nullptr;

    explicit Run(Program &p_) : p(p_), inputs(p_.program->input_count), outputs(p_.program->output_count) {}
    ~Run() {
        if (plan)
            gw_plan_release(plan);
    }

    void open_inputs(nb::handle given, int threads) {
        nb::object list = sequence(given, "inputs must be a sequence");
        check_count("inputs", PySequence_Fast_GET_SIZE(list.ptr()), p.program->input_count);
        std::vector<int64_t> dims;
        dims.reserve((size_t)p.program->input_dim_count);
        for (size_t i = 0; i < inputs.size(); i++) {
            PyObject *item = PySequence_Fast_GET_ITEM(list.ptr(), i);
            if (const char *fault = inputs[i].open(item, p.program->inputs[i].is_state))
                raise_feed("input", (int64_t)i, fault);
            check_rank(p, (int64_t)i, inputs[i].rank);
            dims.insert(dims.end(), inputs[i].dims, inputs[i].dims + inputs[i].rank);
            input_data.push_back(inputs[i].data);
        }
        plan = p.must_plan(dims.data(), threads);
        for (size_t i = 0; i < inputs.size(); i++)
            if (inputs[i].bytes != plan->input_bytes[i])
                raise_feed("input", (int64_t)i, "has elements of another size");
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

    [[noreturn]] void raise_shape(nb::handle array, size_t i) const {
        nb::tuple expected = shape_of(p.program->outputs[i].dims, plan->registers);
        nb::str text =
            nb::str("has shape {}, but the array for it has shape {}").format(expected, array.attr("shape"));
        raise_feed("output", (int64_t)i, text.c_str());
    }

    /* The memory of an output: passed by the caller or new. The shape of a buffer that is not an array is not
     * checked. */
    void open_outputs(nb::handle given) {
        nb::object list =
            given.is_none() ? nb::object() : sequence(given, "outputs must be a sequence or None");
        if (list.is_valid())
            check_count("outputs", PySequence_Fast_GET_SIZE(list.ptr()), p.program->output_count);
        for (size_t i = 0; i < outputs.size(); i++) {
            PyObject *item = list.is_valid() ? PySequence_Fast_GET_ITEM(list.ptr(), i) : Py_None;
            nb::object output =
                item == Py_None ? nb::steal(new_output(p, plan, (int64_t)i)) : nb::borrow(item);
            if (!output.is_valid())
                throw nb::python_error();
            if (const char *fault = outputs[i].open(output.ptr(), true))
                raise_feed("output", (int64_t)i, fault);
            if (PyArray_Check(output.ptr()) && !has_shape((PyArrayObject *)output.ptr(), i))
                raise_shape(output, i);
            if (outputs[i].bytes != plan->output_bytes[i])
                raise_feed("output", (int64_t)i, "has not the bytes that the model writes");
            output_data.push_back(outputs[i].data);
            result.append(output);
        }
    }

    void execute(bool poison) {
        gw_error error = {};
        if (run_plan(p, plan, input_data.data(), output_data.data(), poison, &error))
            return;
        if (!PyErr_Occurred())
            raise(error);
        throw nb::python_error();
    }
};

} // namespace

nb::list Program::run(nb::handle inputs, nb::handle outputs, int threads, bool poison) {
    prepare();
    Run run(*this);
    run.open_inputs(inputs, thread_count(threads));
    run.open_outputs(outputs);
    run.execute(poison);
    return run.result;
}
