/* The fast path of a run from Python, whose overhead is all that a run costs besides its kernels.

   It handles arrays that need no conversion, without a Python frame and without memory besides the outputs.
   In all other cases it returns None; the caller then takes the slow path, which converts arrays and explains
   errors. */
#include <memory>
#include <new>

#include "binding.hpp"
#include <structmember.h>

namespace {

struct FastPath {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *owner; /* keeps the program alive */
    Program *program;
    PyObject *input_names, *input_dtypes; /* tuples */
    PyObject *output_names;
    int threads;
};

/* An array on the stack, or on the heap if it is large. */
template <class T, size_t FEW> struct Local {
    T few[FEW];
    std::unique_ptr<T[]> many;
    T *at;
    explicit Local(int64_t count) : many(count > (int64_t)FEW ? new T[(size_t)count] : nullptr) {
        at = many ? many.get() : few;
    }
};

bool is_plain(PyObject *object, PyObject *dtype, gw_list dims) {
    if (!PyArray_CheckExact(object))
        return false;
    auto *array = (PyArrayObject *)object;
    PyArray_Descr *found = PyArray_DESCR(array), *wanted = (PyArray_Descr *)dtype;
    bool same = found == wanted || (found->type_num == wanted->type_num && PyArray_ISNOTSWAPPED(array));
    return same && PyArray_NDIM(array) == dims.count && PyArray_IS_C_CONTIGUOUS(array) &&
           !PyDataType_REFCHK(found);
}

/* The plan for these arrays; NULL if they need conversion or do not fit the program. */
gw_plan *plan_for(FastPath *e, PyObject *const *arrays, void **data) {
    Program &p = *e->program;
    Local<int64_t, 128> dims(p.program->input_dim_count);
    int64_t count = 0;
    for (int64_t i = 0; i < p.program->input_count; i++) {
        gw_list expected = p.program->inputs[i].dims;
        if (!is_plain(arrays[i], PyTuple_GET_ITEM(e->input_dtypes, i), expected))
            return nullptr;
        auto *array = (PyArrayObject *)arrays[i];
        if (p.program->inputs[i].is_state && !PyArray_ISWRITEABLE(array))
            return nullptr;
        for (int axis = 0; axis < expected.count; axis++)
            dims.at[count++] = PyArray_DIM(array, axis);
        data[i] = PyArray_DATA(array);
    }
    gw_error error = {};
    return p.take_plan(dims.at, e->threads > 0 ? e->threads : gw_pool_threads(), &error);
}

/* Whether output `i` of a run may be written to `object`. */
bool takes_output(const Program &p, const gw_plan *plan, int64_t i, PyObject *object) {
    gw_list dims = p.program->outputs[i].dims;
    if (!is_plain(object, p.dtypes[(size_t)i].ptr(), dims) || !PyArray_ISWRITEABLE((PyArrayObject *)object))
        return false;
    for (int axis = 0; axis < dims.count; axis++)
        if (PyArray_DIM((PyArrayObject *)object, axis) != plan->registers[dims.at[axis]])
            return false;
    return true;
}

/* A tuple of the output arrays, and their addresses: those in the dict `targets`, if there is one, by the
   names of the outputs; the others are new. NULL without a Python error if a target does not fit or is for no
   output. */
PyObject *make_outputs(const FastPath *e, const gw_plan *plan, PyObject *targets, void *const *inputs,
                       void **data) {
    const Program &p = *e->program;
    PyObject *outputs = PyTuple_New(p.program->output_count);
    Py_ssize_t used = 0;
    for (int64_t i = 0; outputs && i < p.program->output_count; i++) {
        PyObject *target =
            targets ? PyDict_GetItemWithError(targets, PyTuple_GET_ITEM(e->output_names, i)) : nullptr;
        PyObject *array = nullptr;
        if (target && takes_output(p, plan, i, target))
            array = Py_NewRef(target);
        else if (!target && !PyErr_Occurred())
            array = new_output(p, plan, i);
        if (!array) {
            Py_CLEAR(outputs);
            break;
        }
        PyTuple_SET_ITEM(outputs, i, array);
        data[i] = PyArray_DATA((PyArrayObject *)array);
        if (target && !gw_output_is_apart(p.program, plan, i, inputs, data))
            Py_CLEAR(outputs);
        used += target != nullptr;
    }
    if (outputs && targets && used != PyDict_GET_SIZE(targets))
        Py_CLEAR(outputs);
    return outputs;
}

/* The outputs as a tuple, some of them in `targets` (a dict, or NULL). None if arrays need conversion or the
   run fails: the slow path fails again and explains the error. */
PyObject *outputs_for(FastPath *e, PyObject *const *arrays, PyObject *targets) try {
    Program &p = *e->program;
    Local<void *, 32> inputs(p.program->input_count), outputs(p.program->output_count);
    gw_plan *plan = plan_for(e, arrays, inputs.at);
    if (!plan)
        Py_RETURN_NONE;
    gw_error error = {};
    PyObject *result = make_outputs(e, plan, targets, inputs.at, outputs.at);
    if (!result && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_MemoryError))) {
        PyErr_Clear();
        result = Py_NewRef(Py_None);
    } else if (result && !run_plan(p, plan, inputs.at, outputs.at, false, &error)) {
        Py_DECREF(result);
        result = PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
    }
    gw_plan_release(plan);
    return result;
} catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
}

PyObject *call(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    auto *e = (FastPath *)self;
    if (PyVectorcall_NARGS(flags) != e->program->program->input_count || names)
        Py_RETURN_NONE;
    return outputs_for(e, arguments, nullptr);
}

/* Like `call`, for a dict of arrays. */
PyObject *outputs_of_feeds(FastPath *e, PyObject *feeds, PyObject *targets) try {
    int64_t count = e->program->program->input_count, found = 0;
    if (!PyDict_CheckExact(feeds) || PyDict_GET_SIZE(feeds) != count)
        Py_RETURN_NONE;
    Local<PyObject *, 32> arrays(count);
    for (PyObject *array; found < count; found++) {
        if (!(array = PyDict_GetItemWithError(feeds, PyTuple_GET_ITEM(e->input_names, found))))
            break;
        arrays.at[found] = Py_NewRef(array); /* another thread may change the dict meanwhile */
    }
    PyObject *result = nullptr;
    if (found == count)
        result = outputs_for(e, arrays.at, targets);
    else if (!PyErr_Occurred())
        result = Py_NewRef(Py_None);
    for (int64_t i = 0; i < found; i++)
        Py_DECREF(arrays.at[i]);
    return result;
} catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
}

/* The index of the output called `name`, or -1. */
int64_t output_index(const FastPath *e, PyObject *name) {
    int64_t count = PyTuple_GET_SIZE(e->output_names);
    for (int64_t i = 0; i < count; i++)
        if (PyTuple_GET_ITEM(e->output_names, i) == name)
            return i;
    for (int64_t i = 0; i < count && PyUnicode_CheckExact(name); i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(e->output_names, i), name) == 0)
            return i;
    return -1;
}

/* Whether `names` is None or a list or tuple of names of outputs. */
bool are_known(const FastPath *e, PyObject *names) {
    if (names == Py_None)
        return true;
    if (!PyList_CheckExact(names) && !PyTuple_CheckExact(names))
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(names); i++)
        if (output_index(e, PySequence_Fast_GET_ITEM(names, i)) < 0)
            return false;
    return true;
}

/* Adds output `i` of `outputs`, called `name`, to a list or dict. */
bool add(PyObject *result, PyObject *name, PyObject *outputs, int64_t i, Py_ssize_t at) {
    PyObject *array = PyTuple_GET_ITEM(outputs, i);
    if (PyDict_CheckExact(result))
        return PyDict_SetItem(result, name, array) == 0;
    PyList_SET_ITEM(result, at, Py_NewRef(array));
    return true;
}

/* The outputs named, or all, as a list or, if `named`, a dict. */
PyObject *chosen(const FastPath *e, PyObject *outputs, PyObject *names, bool named) {
    PyObject *wanted = names == Py_None ? e->output_names : names;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(wanted);
    PyObject *result = named ? PyDict_New() : PyList_New(count);
    for (Py_ssize_t at = 0; result && at < count; at++) {
        PyObject *name = PySequence_Fast_GET_ITEM(wanted, at);
        if (!add(result, name, outputs, names == Py_None ? at : output_index(e, name), at))
            Py_CLEAR(result);
    }
    return result;
}

PyObject *run(PyObject *self, PyObject *const *arguments, Py_ssize_t count, bool named) {
    auto *e = (FastPath *)self;
    if (count != 2 && count != 3) {
        PyErr_SetString(PyExc_TypeError,
                        "takes feeds, names of outputs or None, and a dict of arrays or None");
        return nullptr;
    }
    PyObject *names = arguments[1], *targets = count == 3 && arguments[2] != Py_None ? arguments[2] : nullptr;
    if (!are_known(e, names) || (targets && !PyDict_CheckExact(targets)))
        Py_RETURN_NONE;
    PyObject *copy = PyList_CheckExact(names) ? PyList_AsTuple(names) : Py_NewRef(names); /* or this list */
    PyObject *outputs = copy ? outputs_of_feeds(e, arguments[0], targets) : nullptr;
    PyObject *result = nullptr;
    if (outputs)
        result = outputs == Py_None ? Py_NewRef(Py_None) : chosen(e, outputs, copy, named);
    Py_XDECREF(outputs);
    Py_XDECREF(copy);
    return result;
}

PyObject *run_named(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    return run(self, arguments, count, true);
}

PyObject *run_listed(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    return run(self, arguments, count, false);
}

/* A tuple of the descriptors of `dtypes`. */
PyObject *descriptors(PyObject *dtypes) {
    PyObject *result = PyTuple_New(PyTuple_GET_SIZE(dtypes));
    for (Py_ssize_t i = 0; result && i < PyTuple_GET_SIZE(dtypes); i++) {
        PyArray_Descr *found = nullptr;
        if (!PyArray_DescrConverter(PyTuple_GET_ITEM(dtypes, i), &found)) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, i, (PyObject *)found);
    }
    return result;
}

bool all_texts(PyObject *tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(tuple, i)))
            return false;
    return true;
}

/* Whether the program can run; otherwise sets a Python error. */
bool is_prepared(Program *program) try {
    program->prepare();
    return true;
} catch (nb::python_error &e) {
    e.restore();
    return false;
} catch (const std::exception &e) {
    PyErr_SetString(PyExc_ValueError, e.what());
    return false;
}

/* What is wrong with the arguments of a fast path; null if nothing is. */
const char *fault_of(const Program &p, PyObject *inputs, PyObject *dtypes, PyObject *outputs, int threads) {
    if (PyTuple_GET_SIZE(inputs) != p.program->input_count || !all_texts(inputs) ||
        PyTuple_GET_SIZE(dtypes) != p.program->input_count ||
        PyTuple_GET_SIZE(outputs) != p.program->output_count || !all_texts(outputs))
        return "there must be a name and a dtype for each input, and a name for each output, of the program";
    return threads < 0 ? "threads must not be negative" : nullptr;
}

/* The descriptors of the dtypes of all inputs of a program that can run; otherwise sets a Python error. */
PyObject *input_descriptors(Program *program, PyObject *dtypes) {
    PyObject *found = is_prepared(program) ? descriptors(dtypes) : nullptr;
    for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(found); i++)
        if (PyDataType_ELSIZE((PyArray_Descr *)PyTuple_GET_ITEM(found, i)) !=
            program->program->inputs[i].item) {
            PyErr_SetString(PyExc_ValueError, "the element size of a dtype differs from that of its input");
            Py_CLEAR(found);
        }
    return found;
}

PyObject *create(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static const char *names[] = {"program", "inputs", "dtypes", "outputs", "threads", nullptr};
    PyObject *owner, *inputs, *dtypes, *outputs;
    int threads = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO!O!O!|i", (char **)names, &owner, &PyTuple_Type,
                                     &inputs, &PyTuple_Type, &dtypes, &PyTuple_Type, &outputs, &threads))
        return nullptr;
    if (!nb::isinstance<Program>(owner)) {
        PyErr_SetString(PyExc_TypeError, "program must be a Program");
        return nullptr;
    }
    auto *program = nb::inst_ptr<Program>(owner);
    if (const char *fault = fault_of(*program, inputs, dtypes, outputs, threads)) {
        PyErr_SetString(PyExc_ValueError, fault);
        return nullptr;
    }
    PyObject *converted = input_descriptors(program, dtypes);
    auto *e = converted ? (FastPath *)type->tp_alloc(type, 0) : nullptr;
    if (!e) {
        Py_XDECREF(converted);
        return nullptr;
    }
    e->vectorcall = call;
    e->owner = Py_NewRef(owner), e->program = program;
    e->input_names = Py_NewRef(inputs), e->input_dtypes = converted, e->output_names = Py_NewRef(outputs);
    e->threads = threads < GW_MAX_THREADS ? threads : GW_MAX_THREADS;
    return (PyObject *)e;
}

void destroy(PyObject *self) {
    auto *e = (FastPath *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(e->owner), Py_DECREF(e->input_names), Py_DECREF(e->input_dtypes), Py_DECREF(e->output_names);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject *get_threads(PyObject *self, void *) { return PyLong_FromLong(((FastPath *)self)->threads); }

int set_threads(PyObject *self, PyObject *value, void *) {
    int overflow = 0;
    long threads = value ? PyLong_AsLongAndOverflow(value, &overflow) : -1;
    if (PyErr_Occurred())
        return -1;
    if (overflow > 0)
        threads = GW_MAX_THREADS;
    if (threads < 0) {
        PyErr_SetString(PyExc_ValueError, "threads must not be negative");
        return -1;
    }
    ((FastPath *)self)->threads = threads < GW_MAX_THREADS ? (int)threads : GW_MAX_THREADS;
    return 0;
}

PyMethodDef methods[] = {
    {"named", (PyCFunction)(void (*)())run_named, METH_FASTCALL,
     "(feeds, names or None, out or None) -> dict or None"},
    {"listed", (PyCFunction)(void (*)())run_listed, METH_FASTCALL, "(feeds, names or None) -> list or None"},
    {},
};
PyGetSetDef properties[] = {{"threads", get_threads, set_threads, nullptr, nullptr}, {}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FastPath, vectorcall), READONLY, nullptr},
    {},
};
PyType_Slot slots[] = {
    {Py_tp_new, (void *)create},
    {Py_tp_dealloc, (void *)destroy},
    {Py_tp_call, (void *)PyVectorcall_Call},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec specification = {"graphwright._native.FastPath", sizeof(FastPath), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
                             slots};

} // namespace

void define_fast_path(nb::module_ &m) {
    PyObject *type = PyType_FromSpec(&specification);
    if (!type)
        throw nb::python_error();
    m.attr("FastPath") = nb::steal(type);
}
