/* Native loops, whose body is one program: pass the carried values from one iteration to the next and
   accumulate rows, without a Python frame. */
#include <cstring>

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

struct NativeLoop {
    nb::object path;
    std::vector<int64_t> reads, writes, result_values;
    std::vector<nb::object>
        values; /* inputs of the body: the iteration number, the carried values, the others */
    std::vector<PyObject *> arguments;
    std::vector<nb::object> given; /* outputs of the last iteration */
    std::vector<Rows> rows;
    int64_t carried, limit, number = 0, yielded_at = 0;
    bool conditional, goes_on;

    NativeLoop(nb::object path_, std::vector<int64_t> reads_, std::vector<int64_t> writes_,
               std::vector<int64_t> results_, nb::handle start, int64_t carried_, bool conditional_,
               int64_t limit_, bool goes_on_)
        : path(std::move(path_)), reads(std::move(reads_)), writes(std::move(writes_)),
          result_values(std::move(results_)), arguments(reads.size()), carried(carried_), limit(limit_),
          conditional(conditional_), goes_on(goes_on_) {
        need_numpy();
        for (nb::handle value : sequence(start, "values must be a sequence"))
            values.push_back(nb::borrow(value));
        int64_t carried_results = carried + conditional;
        if (carried < 0 || (int64_t)values.size() <= carried ||
            (int64_t)result_values.size() < carried_results)
            throw nb::value_error("too few values for those that the loop carries");
        for (const auto *numbers : {&reads, &writes, &result_values})
            for (int64_t value : *numbers)
                if (value < 0 || value >= (int64_t)values.size())
                    throw nb::value_error("the index of a value is out of range");
        rows.resize(result_values.size() - (size_t)carried_results);
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

    /* Returns false, without any change, if the fast path cannot run these values. */
    bool run_iteration() {
        set_number();
        for (size_t i = 0; i < reads.size(); i++)
            arguments[i] = values[(size_t)reads[i]].ptr();
        nb::object made = owned(PyObject_Vectorcall(path.ptr(), arguments.data(), reads.size(), nullptr));
        if (made.is_none() || (size_t)PyTuple_GET_SIZE(made.ptr()) != writes.size())
            return false;
        for (size_t i = 0; i < writes.size(); i++)
            values[(size_t)writes[i]] = nb::borrow(PyTuple_GET_ITEM(made.ptr(), i));
        given.clear();
        for (int64_t value : result_values)
            given.push_back(values[(size_t)value]);
        return accept();
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
    nb::class_<NativeLoop>(m, "NativeLoop")
        .def(nb::init<nb::object, std::vector<int64_t>, std::vector<int64_t>, std::vector<int64_t>,
                      nb::handle, int64_t, bool, int64_t, bool>(),
             nb::arg("path"), nb::arg("reads"), nb::arg("writes"), nb::arg("results"), nb::arg("values"),
             nb::arg("carried"), nb::arg("conditional"), nb::arg("limit"), nb::arg("goes_on"))
        .def("run", &NativeLoop::run)
        .def("received", &NativeLoop::received)
        .def("take", &NativeLoop::take, nb::arg("results"))
        .def("results", &NativeLoop::results);
}
