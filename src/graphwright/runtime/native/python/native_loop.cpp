/* Native loops, whose bodies are programs: pass the carried values from one iteration to the next and
   accumulate rows, without a Python frame. Between programs, sizes that one of them computed are bound. */
#include <cstring>

#include <nanobind/stl/tuple.h>

#include "binding.hpp"

extern "C" {
#include "clock.h"
}

namespace {

enum { FIRST_ROWS = 16 };
constexpr int64_t GIL_NS = 1'000'000;

PyArrayObject *as_array(nb::handle object) { return (PyArrayObject *)object.ptr(); }

nb::object owned(PyObject *object) {
    if (!object)
        throw nb::python_error();
    return nb::steal(object);
}

/* Arrays of one shape, appended to an array that grows. */
struct Rows {
    nb::object all; /* may have more rows than used; null before the first row */

    bool fits(nb::handle row) const {
        if (!PyArray_Check(row.ptr()) || !PyArray_IS_C_CONTIGUOUS(as_array(row)))
            return false;
        if (!all.is_valid())
            return true;
        PyArrayObject *a = as_array(all), *r = as_array(row);
        return PyArray_NDIM(a) == PyArray_NDIM(r) + 1 && PyArray_TYPE(a) == PyArray_TYPE(r) &&
               PyArray_CompareLists(PyArray_DIMS(a) + 1, PyArray_DIMS(r), PyArray_NDIM(r));
    }

    void append(nb::handle row, int64_t at) {
        PyArrayObject *r = as_array(row);
        if (!all.is_valid())
            start(r);
        else if (at == PyArray_DIM(as_array(all), 0))
            resize(2 * at);
        size_t bytes = (size_t)PyArray_NBYTES(r);
        if (bytes > 0)
            memcpy(PyArray_BYTES(as_array(all)) + (size_t)at * bytes, PyArray_BYTES(r), bytes);
    }

    void start(PyArrayObject *row) {
        std::vector<npy_intp> dims{FIRST_ROWS};
        dims.insert(dims.end(), PyArray_DIMS(row), PyArray_DIMS(row) + PyArray_NDIM(row));
        Py_INCREF(PyArray_DESCR(row));
        all = owned(PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(row), (int)dims.size(), dims.data(),
                                         nullptr, nullptr, 0, nullptr));
    }

    void resize(int64_t count) {
        PyArrayObject *a = as_array(all);
        std::vector<npy_intp> dims(PyArray_DIMS(a), PyArray_DIMS(a) + PyArray_NDIM(a));
        dims[0] = count;
        PyArray_Dims shape = {dims.data(), (int)dims.size()};
        owned(PyArray_Resize(a, &shape, 0, NPY_CORDER));
    }
};

/* A size as programs receive it: an empty array whose first axis has that size. */
nb::object passed(npy_intp size) {
    npy_intp dims[] = {size, 0};
    return owned(PyArray_SimpleNew(2, dims, NPY_UINT8));
}

/* Passes the size of an axis of an array; None if there is no such axis. */
struct AxisSize {
    int64_t axis;

    explicit AxisSize(int64_t axis_) : axis(axis_) { need_numpy(); }

    nb::object read(nb::handle array) const {
        if (!PyArray_Check(array.ptr()) || axis < 0 || axis >= PyArray_NDIM(as_array(array)))
            return nb::none();
        return nb::make_tuple(passed(PyArray_DIM(as_array(array), (int)axis)));
    }
};

/* Passes a size that a program computed, and gives views of the first elements of buffers. */
struct SizeBinder {
    std::vector<std::vector<int64_t>> shapes; /* of the views; a negative number stands for the size */

    explicit SizeBinder(std::vector<std::vector<int64_t>> shapes_) : shapes(std::move(shapes_)) {
        need_numpy();
    }

    /* None if the size is invalid, or exceeds a buffer. */
    nb::object bind(nb::args operands) const {
        int64_t size = 0;
        if (operands.size() != shapes.size() + 1 || !read_size(operands[0], &size))
            return nb::none();
        nb::object results = owned(PyTuple_New((Py_ssize_t)operands.size()));
        PyTuple_SET_ITEM(results.ptr(), 0, passed(size).release().ptr());
        for (size_t k = 0; k < shapes.size(); k++) {
            nb::object view = first_elements(operands[k + 1], shapes[k], size);
            if (!view.is_valid())
                return nb::none();
            PyTuple_SET_ITEM(results.ptr(), (Py_ssize_t)k + 1, view.release().ptr());
        }
        return results;
    }

    static bool read_size(nb::handle count, int64_t *size) {
        if (!PyArray_Check(count.ptr()))
            return false;
        PyArrayObject *array = as_array(count);
        if (PyArray_TYPE(array) != NPY_INT64 || PyArray_SIZE(array) != 1)
            return false;
        memcpy(size, PyArray_DATA(array), sizeof *size);
        return *size >= 0;
    }

    static nb::object first_elements(nb::handle buffer, const std::vector<int64_t> &shape, int64_t size) {
        if (!PyArray_Check(buffer.ptr()) || !PyArray_IS_C_CONTIGUOUS(as_array(buffer)))
            return {};
        PyArrayObject *all = as_array(buffer);
        std::vector<npy_intp> dims;
        npy_intp elements = 1;
        for (int64_t dim : shape) {
            dims.push_back(dim < 0 ? size : dim);
            if (__builtin_mul_overflow(elements, dims.back(), &elements))
                return {};
        }
        if (dims.size() > NPY_MAXDIMS || elements > PyArray_SIZE(all))
            return {};
        Py_INCREF(PyArray_DESCR(all));
        nb::object view =
            owned(PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(all), (int)dims.size(), dims.data(),
                                       nullptr, PyArray_DATA(all), NPY_ARRAY_CARRAY, nullptr));
        if (PyArray_SetBaseObject(as_array(view), buffer.inc_ref().ptr()) != 0)
            throw nb::python_error();
        return view;
    }
};

/* A function, and the numbers of the values that it reads and of those that it computes from them. The
   function is the fast path of a program, an AxisSize or a SizeBinder; it returns None if it cannot run the
   values. */
using Step = std::tuple<nb::object, std::vector<int64_t>, std::vector<int64_t>>;

struct NativeLoop {
    std::vector<Step> steps;
    std::vector<int64_t> result_values;
    std::vector<nb::object>
        values; /* inputs of the body: the iteration number, the carried values, the others */
    std::vector<PyObject *> arguments;
    std::vector<nb::object> given; /* outputs of the last iteration */
    std::vector<Rows> rows;
    int64_t carried, limit, number = 0, yielded_at = 0;
    bool conditional, goes_on;

    NativeLoop(std::vector<Step> steps_, std::vector<int64_t> results_, nb::handle start, int64_t carried_,
               bool conditional_, int64_t limit_, bool goes_on_)
        : steps(std::move(steps_)), result_values(std::move(results_)), carried(carried_), limit(limit_),
          conditional(conditional_), goes_on(goes_on_) {
        need_numpy();
        for (nb::handle value : sequence(start, "values must be a sequence"))
            values.push_back(nb::borrow(value));
        int64_t carried_results = carried + conditional;
        if (carried < 0 || (int64_t)values.size() <= carried ||
            (int64_t)result_values.size() < carried_results)
            throw nb::value_error("too few values for those that the loop carries");
        for (const auto &[function, reads, writes] : steps) {
            check_numbers(reads);
            check_numbers(writes);
        }
        check_numbers(result_values);
        rows.resize(result_values.size() - (size_t)carried_results);
    }

    void check_numbers(const std::vector<int64_t> &numbers) const {
        for (int64_t value : numbers)
            if (value < 0 || value >= (int64_t)values.size())
                throw nb::value_error("the index of a value is out of range");
    }

    bool run() {
        yielded_at = gw_now();
        while (goes_on && number < limit) {
            if (!run_iteration())
                return false;
            yield_gil();
        }
        return true;
    }

    /* Returns false, without any change of carried values and rows, if a step cannot run these values. */
    bool run_iteration() {
        set_number();
        for (const Step &step : steps)
            if (!run_step(step))
                return false;
        given.clear();
        for (int64_t value : result_values)
            given.push_back(values[(size_t)value]);
        return accept();
    }

    bool run_step(const Step &step) {
        const auto &[function, reads, writes] = step;
        arguments.clear();
        for (int64_t value : reads)
            arguments.push_back(values[(size_t)value].ptr());
        nb::object made =
            owned(PyObject_Vectorcall(function.ptr(), arguments.data(), arguments.size(), nullptr));
        if (made.is_none() || (size_t)PyTuple_GET_SIZE(made.ptr()) != writes.size())
            return false;
        for (size_t i = 0; i < writes.size(); i++)
            values[(size_t)writes[i]] = nb::borrow(PyTuple_GET_ITEM(made.ptr(), i));
        return true;
    }

    void set_number() {
        values[0] = owned(PyArray_SimpleNew(0, nullptr, NPY_INT64));
        memcpy(PyArray_DATA(as_array(values[0])), &number, sizeof number);
    }

    /* Returns false, without any change, if rows differ in shape. */
    bool accept() {
        size_t first = conditional, behind = first + (size_t)carried;
        for (size_t k = 0; k < rows.size(); k++)
            if (!rows[k].fits(given[behind + k]))
                return false;
        int holds = conditional ? PyObject_IsTrue(given[0].ptr()) : 1;
        if (holds < 0)
            throw nb::python_error();
        for (size_t k = 0; k < rows.size(); k++)
            rows[k].append(given[behind + k], number);
        for (size_t k = 0; k < (size_t)carried; k++)
            values[1 + k] = std::move(given[first + k]);
        goes_on = holds;
        number++;
        return true;
    }

    /* Periodically lets other threads take the GIL and handles signals. */
    void yield_gil() {
        if (gw_now() - yielded_at < GIL_NS)
            return;
        enter_python(PyEval_SaveThread());
        if (PyErr_CheckSignals() != 0)
            throw nb::python_error();
        yielded_at = gw_now();
    }

    nb::list received() {
        set_number();
        nb::list list;
        for (size_t k = 0; k <= (size_t)carried; k++)
            list.append(values[k]);
        return list;
    }

    void take(nb::handle results) {
        given.clear();
        for (nb::handle result : sequence(results, "results must be a sequence"))
            given.push_back(nb::borrow(result));
        if (given.size() != result_values.size())
            throw nb::value_error("another number of results than the loop's");
        if (!accept())
            throw nb::value_error(shapes_text().c_str());
    }

    /* Says which scan output of this iteration has another shape than before. */
    std::string shapes_text() const {
        const size_t first = given.size() - rows.size();
        size_t k = 0;
        while (k + 1 < rows.size() && rows[k].fits(given[first + k]))
            k++;
        nb::object shape = nb::tuple();
        if (rows[k].all.is_valid())
            shape = rows[k].all.attr("shape")[nb::slice(nb::int_(1), nb::none(), nb::none())];
        return nb::cast<std::string>(
            nb::str("scan output {} has shape {} in iteration 0, but {} in iteration {}")
                .format(k, shape, given[first + k].attr("shape"), number));
    }

    nb::tuple results() {
        nb::list last, scanned;
        for (size_t k = 1; k <= (size_t)carried; k++)
            last.append(values[k]);
        if (number == 0)
            return nb::make_tuple(last, nb::none());
        for (Rows &each : rows) {
            each.resize(number);
            scanned.append(each.all);
        }
        return nb::make_tuple(last, scanned);
    }
};

} // namespace

void define_native_loop(nb::module_ &m) {
    nb::class_<AxisSize>(m, "AxisSize")
        .def(nb::init<int64_t>(), nb::arg("axis"))
        .def("__call__", &AxisSize::read, nb::arg("array").none());
    nb::class_<SizeBinder>(m, "SizeBinder")
        .def(nb::init<std::vector<std::vector<int64_t>>>(), nb::arg("shapes"))
        .def("__call__", &SizeBinder::bind);
    nb::class_<NativeLoop>(m, "NativeLoop")
        .def(nb::init<std::vector<Step>, std::vector<int64_t>, nb::handle, int64_t, bool, int64_t, bool>(),
             nb::arg("steps"), nb::arg("results"), nb::arg("values"), nb::arg("carried"),
             nb::arg("conditional"), nb::arg("limit"), nb::arg("goes_on"))
        .def("run", &NativeLoop::run)
        .def("received", &NativeLoop::received)
        .def("take", &NativeLoop::take, nb::arg("results"))
        .def("results", &NativeLoop::results);
}
