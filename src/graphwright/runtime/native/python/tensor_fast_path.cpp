/* The fast path of a run on tensors of another library, such as PyTorch. It reads and creates tensors with
   DLPack's C functions: without a copy, and without a Python call for each tensor.

   Like `FastPath`, it handles only arguments that need no conversion, and returns None for all others. */
#include <tuple>
#include <vector>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "binding.hpp"
#include "dlpack_exchange.h"

namespace {

constexpr int MOST_AXES = 32;
constexpr int COMPLEX = 5; /* DLPack's code of pairs of floats */

/* How an input of the program is read from the arguments. `order`: the axes of the tensor in the order of the
   program, from the outermost in memory. */
struct InputSource {
    int64_t position;
    int code, bits;
    std::vector<int> order;
    bool is_size;         /* the argument is an integer: the first size of an input without elements */
    bool is_pair = false; /* a complex tensor, of which the program sees the parts along a last axis */
};

/* An argument whose value the program contains as a constant: it must stay the same object, at the same
   address, with the same PyTorch version counter and the same sample of its elements. */
struct FrozenArgument {
    int64_t position;
    PyObject *object; /* a borrowed reference that is only compared: the object may be freed */
    void *data;
    int64_t version;
    size_t bytes;
    uint64_t sample;
};

/* A hash of four words of a tensor. It detects most writes that do not change the version counter, since such
   writes mostly change all elements. */
uint64_t sample_of(const void *data, size_t bytes) {
    uint64_t words[4] = {};
    const size_t step = bytes / 3 / 8 * 8, last = bytes < 8 ? 0 : bytes - 8;
    for (size_t k = 0; k < 4 && bytes; k++)
        memcpy(&words[k], (const char *)data + (k < 3 ? k * step : last), bytes < 8 ? bytes : 8);
    uint64_t mixed = bytes;
    for (uint64_t word : words)
        mixed = (mixed ^ word) * 0x9E3779B97F4A7C15u ^ (mixed >> 29);
    return mixed;
}

const void *elements(const dlpack_tensor &seen) { return (const char *)seen.data + seen.byte_offset; }

void set_error(void *, const char *kind, const char *message) {
    PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, message);
}

struct TensorFastPath {
    nb::object owner, type;
    Program &program;
    const dlpack_exchange *api;
    std::vector<InputSource> inputs;
    std::vector<std::pair<int, int>> outputs; /* DLPack's code and bits */
    std::vector<FrozenArgument> frozen;
    int threads;
    bool is_lazy; /* arguments may be negated or conjugated when they are read */

    TensorFastPath(nb::object program_, nb::object type_, nb::list inputs_,
                   std::vector<std::pair<int, int>> outputs_, std::vector<std::pair<int64_t, size_t>> frozen_,
                   nb::tuple arguments, int threads_, bool is_lazy_);

    /* The outputs as a list. None if an argument needs conversion, a frozen argument has changed, or the run
     * fails.
     */
    nb::object call(PyObject *const *arguments, size_t count);

  private:
    bool see(PyObject *object, dlpack_tensor *seen) const;
    bool fits(PyObject *const *arguments, size_t count) const;
    bool take(const InputSource &source, gw_list expected, PyObject *object, int64_t *dims,
              void **data) const;
    bool is_pair(size_t output) const;
    bool make(size_t output, const gw_plan *plan, PyObject *results, void **data) const;
};

std::vector<InputSource> input_sources(nb::list given) {
    std::vector<InputSource> made;
    for (nb::handle each : given) {
        auto [position, code, bits, order] = nb::cast<std::tuple<int64_t, int, int, nb::object>>(each);
        InputSource source{position, code, bits, {}, order.is_none()};
        if (!source.is_size)
            source.order = nb::cast<std::vector<int>>(order);
        if (source.order.size() > MOST_AXES)
            throw nb::value_error("a tensor has too many axes");
        made.push_back(std::move(source));
    }
    return made;
}

/* Whether the elements of the program, of `item` bytes, are the parts of complex elements. */
bool are_parts(int code, int bits, int64_t item) { return code == COMPLEX && item * 16 == bits; }

/* Whether a method of `object` without arguments returns False. */
bool denies(PyObject *object, PyObject *name) {
    PyObject *answer = PyObject_CallMethodNoArgs(object, name);
    const bool is_denied = answer == Py_False;
    Py_XDECREF(answer);
    PyErr_Clear();
    return is_denied;
}

TensorFastPath::TensorFastPath(nb::object program_, nb::object type_, nb::list inputs_,
                               std::vector<std::pair<int, int>> outputs_,
                               std::vector<std::pair<int64_t, size_t>> frozen_, nb::tuple arguments,
                               int threads_, bool is_lazy_)
    : owner(program_), type(type_), program(nb::cast<Program &>(program_)), inputs(input_sources(inputs_)),
      outputs(std::move(outputs_)), threads(threads_), is_lazy(is_lazy_) {
    nb::object capsule = type.attr("__dlpack_c_exchange_api__");
    api = (const dlpack_exchange *)PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api");
    if (!api)
        throw nb::python_error();
    if (api->major != DLPACK_MAJOR || !api->tensor_from_object)
        throw nb::value_error("unsupported version of DLPack's exchange functions");
    if ((int64_t)inputs.size() != program.program->input_count ||
        (int64_t)outputs.size() != program.program->output_count)
        throw nb::value_error("the number of inputs or outputs differs from that of the program");
    for (size_t i = 0; i < inputs.size(); i++) {
        const int64_t item = program.program->inputs[i].item;
        inputs[i].is_pair = are_parts(inputs[i].code, inputs[i].bits, item);
        const size_t rank = inputs[i].is_size ? 2 : inputs[i].order.size() + inputs[i].is_pair;
        if ((int64_t)rank != program.program->inputs[i].dims.count ||
            (!inputs[i].is_pair && (inputs[i].bits + 7) / 8 != item) ||
            (size_t)inputs[i].position >= arguments.size())
            throw nb::value_error("the rank, element type or position of an input does not fit the program");
    }
    for (size_t i = 0; i < outputs.size(); i++)
        if (!(is_pair(i) || (outputs[i].second + 7) / 8 == program.program->outputs[i].item) ||
            program.program->outputs[i].dims.count > MOST_AXES)
            throw nb::value_error("the element type or rank of an output does not fit the program");
    for (auto [position, bytes] : frozen_) {
        if ((size_t)position >= arguments.size())
            throw nb::value_error("the position of a frozen argument is out of range");
        dlpack_tensor seen;
        nb::handle tensor = arguments[position];
        if (!see(tensor.ptr(), &seen))
            throw nb::value_error("a frozen argument is not a CPU tensor of the type");
        frozen.push_back({position, tensor.ptr(), seen.data, nb::cast<int64_t>(tensor.attr("_version")),
                          bytes, sample_of(elements(seen), bytes)});
    }
    program.prepare();
}

/* Reads the address, type and shape of a tensor; false if the object is of another type or not on the CPU. */
bool TensorFastPath::see(PyObject *object, dlpack_tensor *seen) const {
    if (!PyObject_TypeCheck(object, (PyTypeObject *)type.ptr()))
        return false;
    if (api->tensor_from_object(object, seen)) {
        PyErr_Clear();
        return false;
    }
    return seen->device_type == DLPACK_CPU && seen->lanes == 1;
}

/* Whether there is an argument for each input, and no frozen argument has changed. */
bool TensorFastPath::fits(PyObject *const *arguments, size_t count) const {
    static PyObject *name = PyUnicode_InternFromString("_version");
    for (const InputSource &source : inputs)
        if ((size_t)source.position >= count)
            return false;
    for (const FrozenArgument &each : frozen) {
        dlpack_tensor seen;
        PyObject *object = (size_t)each.position < count ? arguments[each.position] : nullptr;
        if (object != each.object || !see(object, &seen) || seen.data != each.data)
            return false;
        PyObject *version = PyObject_GetAttr(object, name);
        const int64_t number = version ? PyLong_AsLongLong(version) : -1;
        Py_XDECREF(version);
        if (PyErr_Occurred())
            PyErr_Clear();
        if (number != each.version || sample_of(elements(seen), each.bytes) != each.sample)
            return false;
    }
    return true;
}

/* The sizes of an input in the program's order of axes, and its elements; false if the tensor has another
   type, rank or strides. */
bool TensorFastPath::take(const InputSource &source, gw_list expected, PyObject *object, int64_t *dims,
                          void **data) const {
    static char nothing;
    if (source.is_size) {
        dims[0] = PyLong_AsLongLong(object), dims[1] = 0;
        *data = &nothing;
        if (!PyErr_Occurred())
            return true;
        PyErr_Clear();
        return false;
    }
    static PyObject *negated = PyUnicode_InternFromString("is_neg");
    static PyObject *conjugated = PyUnicode_InternFromString("is_conj");
    dlpack_tensor seen;
    if (!see(object, &seen) || seen.code != source.code || seen.bits != source.bits ||
        seen.ndim + source.is_pair != expected.count)
        return false;
    if (is_lazy && !(denies(object, negated) && denies(object, conjugated)))
        return false;
    if (source.is_pair)
        dims[seen.ndim] = 2;
    int64_t stride = 1;
    for (int k = seen.ndim; k-- > 0;) {
        const int axis = source.order[(size_t)k];
        dims[k] = seen.shape[axis];
        if (dims[k] > 1 && seen.strides[axis] != stride)
            return false;
        stride *= dims[k];
    }
    if (!seen.data && stride) /* PyTorch's zero tensors have no memory */
        return false;
    *data = seen.data ? (char *)seen.data + seen.byte_offset : &nothing;
    return true;
}

/* Whether an output has the parts of a complex tensor along a last axis. */
bool TensorFastPath::is_pair(size_t output) const {
    return are_parts(outputs[output].first, outputs[output].second, program.program->outputs[output].item);
}

/* Creates the tensor of an output as an item of `results`; `*data` is the address of its elements. */
bool TensorFastPath::make(size_t output, const gw_plan *plan, PyObject *results, void **data) const {
    static char nothing;
    const gw_list dims = program.program->outputs[output].dims;
    const int rank = (int)dims.count - is_pair(output);
    int64_t shape[MOST_AXES];
    for (int k = 0; k < rank; k++)
        shape[k] = plan->registers[dims.at[k]];
    dlpack_tensor prototype = {};
    prototype.device_type = DLPACK_CPU, prototype.ndim = rank, prototype.shape = shape;
    prototype.code = (uint8_t)outputs[output].first, prototype.bits = (uint8_t)outputs[output].second;
    prototype.lanes = 1;
    dlpack_managed *made = nullptr;
    if (api->allocate(&prototype, &made, nullptr, set_error))
        return false;
    *data = made->tensor.data ? (char *)made->tensor.data + made->tensor.byte_offset : &nothing;
    void *object = nullptr;
    if (api->object_from_managed(made, &object))
        return false;
    PyList_SET_ITEM(results, (Py_ssize_t)output, (PyObject *)object);
    return true;
}

nb::object TensorFastPath::call(PyObject *const *arguments, size_t argument_count) {
    const gw_program *p = program.program;
    if (!fits(arguments, argument_count))
        return nb::none();
    std::vector<int64_t> dims((size_t)p->input_dim_count);
    std::vector<void *> sources(inputs.size()), targets(outputs.size());
    int64_t count = 0;
    for (size_t i = 0; i < inputs.size(); i++) {
        PyObject *object = arguments[inputs[i].position];
        if (!take(inputs[i], p->inputs[i].dims, object, dims.data() + count, &sources[i]))
            return nb::none();
        count += p->inputs[i].dims.count;
    }
    gw_error error = {};
    gw_plan *plan = program.take_plan(dims.data(), threads > 0 ? threads : gw_pool_threads(), &error);
    if (!plan)
        return nb::none();
    nb::object results = nb::steal(PyList_New((Py_ssize_t)outputs.size()));
    bool is_made = results.is_valid();
    for (size_t i = 0; is_made && i < outputs.size(); i++)
        is_made = make(i, plan, results.ptr(), &targets[i]);
    const bool is_done = is_made && run_plan(program, plan, sources.data(), targets.data(), false, &error);
    gw_plan_release(plan);
    if (!is_done && PyErr_Occurred())
        throw nb::python_error();
    return is_done ? results : nb::none();
}

/* The callable that PyTorch gets: runs the first fast path that accepts the arguments, or else calls
   `otherwise` in Python. */
struct TensorDispatch {
    nb::object otherwise;
    std::vector<nb::object> paths;
    size_t latest = 0; /* the path that accepted the last call */
    nb::object names, flag, frame;

    explicit TensorDispatch(nb::object otherwise_) : otherwise(std::move(otherwise_)) {}

    void set_paths(nb::list given) {
        std::vector<nb::object> made;
        for (nb::handle each : given) {
            nb::cast<TensorFastPath &>(each); /* raises TypeError */
            made.push_back(nb::borrow(each));
        }
        paths.swap(made); /* the old paths are freed last, since their destructors may call this object */
    }

    /* While the dict `names` maps `flag` to True, calls go to the Python function `frame`, which calls `run`.
     */
    void watch(nb::dict names_, nb::str flag_, nb::object frame_) {
        names = std::move(names_);
        flag = std::move(flag_);
        frame = std::move(frame_);
    }

    bool is_watched() const {
        return frame.is_valid() && PyDict_GetItemWithError(names.ptr(), flag.ptr()) == Py_True;
    }

    nb::object call(PyObject *const *arguments, size_t count) {
        return is_watched() ? frame(tuple_of(arguments, count)) : serve(arguments, count);
    }

    nb::object run(nb::tuple arguments) {
        return serve(PySequence_Fast_ITEMS(arguments.ptr()), nb::len(arguments));
    }

    static nb::object tuple_of(PyObject *const *arguments, size_t count) {
        nb::object given = nb::steal(PyTuple_New((Py_ssize_t)count));
        if (!given.is_valid())
            throw nb::python_error();
        for (size_t i = 0; i < count; i++)
            PyTuple_SET_ITEM(given.ptr(), (Py_ssize_t)i, Py_NewRef(arguments[i]));
        return given;
    }

    nb::object serve(PyObject *const *arguments, size_t count) {
        for (size_t k = 0, from = latest; k < paths.size(); k++) {
            const size_t at = (from + k) % paths.size();
            nb::object path = paths[at]; /* a reference, since another thread may replace the paths */
            nb::object made = nb::cast<TensorFastPath &>(path).call(arguments, count);
            if (!made.is_none()) {
                latest = at;
                return made;
            }
        }
        return nb::object(otherwise)(tuple_of(arguments, count));
    }
};

/* Takes the arguments, or one list with all of them, which is emptied. */
PyObject *call_dispatch(PyObject *self, PyObject *arguments, PyObject *) {
    try {
        TensorDispatch &dispatch = *nb::inst_ptr<TensorDispatch>(self);
        const Py_ssize_t count = PyTuple_GET_SIZE(arguments);
        PyObject *list = count == 1 ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
        if (!list || !PyList_CheckExact(list))
            return dispatch.call(PySequence_Fast_ITEMS(arguments), (size_t)count).release().ptr();
        nb::object boxed = nb::steal(PyList_AsTuple(list)); /* a copy that no other thread can change */
        if (!boxed.is_valid() || PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr))
            throw nb::python_error();
        return dispatch.call(PySequence_Fast_ITEMS(boxed.ptr()), (size_t)PyTuple_GET_SIZE(boxed.ptr()))
            .release()
            .ptr();
    } catch (nb::python_error &error) {
        error.restore();
    } catch (const std::bad_alloc &) {
        PyErr_NoMemory();
    }
    return nullptr;
}

int traverse_dispatch(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
        TensorDispatch *dispatch = nb::inst_ptr<TensorDispatch>(self);
        Py_VISIT(dispatch->otherwise.ptr());
        Py_VISIT(dispatch->names.ptr());
        Py_VISIT(dispatch->frame.ptr());
        for (nb::object &each : dispatch->paths)
            Py_VISIT(each.ptr());
    }
    return 0;
}

int clear_dispatch(PyObject *self) {
    TensorDispatch *dispatch = nb::inst_ptr<TensorDispatch>(self);
    nb::object otherwise = std::move(dispatch->otherwise);
    nb::object names = std::move(dispatch->names), frame = std::move(dispatch->frame);
    std::vector<nb::object> paths = std::move(dispatch->paths);
    return 0;
}

PyType_Slot dispatch_slots[] = {
    {Py_tp_call, (void *)call_dispatch},
    {Py_tp_traverse, (void *)traverse_dispatch},
    {Py_tp_clear, (void *)clear_dispatch},
    {0, nullptr},
};

} // namespace

void define_tensor_fast_path(nb::module_ &m) {
    nb::class_<TensorFastPath>(m, "TensorFastPath")
        .def(nb::init<nb::object, nb::object, nb::list, std::vector<std::pair<int, int>>,
                      std::vector<std::pair<int64_t, size_t>>, nb::tuple, int, bool>(),
             nb::arg("program"), nb::arg("type"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("frozen"),
             nb::arg("arguments"), nb::arg("threads") = 0, nb::arg("is_lazy") = false);
    m.def(
        "sample_memory", [](size_t data, size_t bytes) { return sample_of((const void *)data, bytes); },
        nb::arg("data"), nb::arg("bytes"));
    nb::class_<TensorDispatch>(m, "TensorDispatch", nb::type_slots(dispatch_slots), nb::dynamic_attr())
        .def(nb::init<nb::object>(), nb::arg("otherwise"))
        .def("set_paths", &TensorDispatch::set_paths, nb::arg("paths"))
        .def("watch", &TensorDispatch::watch, nb::arg("names"), nb::arg("flag"), nb::arg("frame"))
        .def("run", &TensorDispatch::run, nb::arg("arguments"));
}
