/* What a crash in a kernel writes, as passed by Python before a run. */
#include <tuple>

#include "binding.hpp"
#include <nanobind/stl/tuple.h>

extern "C" {
#include "crash.h"
}

namespace {

struct Memory {
    Py_buffer view = {};

    explicit Memory(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0)
            throw nb::python_error();
    }
    Memory(Memory &&other) : view(other.view) { other.view = {}; }
    ~Memory() {
        if (view.obj)
            PyBuffer_Release(&view);
    }
};

using File = std::tuple<std::string, nb::bytes, nb::object>;

/* A `with` block of this thread in which crashes write a folder. */
struct CrashRun {
    std::string folder, model, advice;
    std::vector<File> given;
    std::vector<Memory> memory;
    std::vector<gw_crash_file> files;
    gw_crash_run run = {};
    const gw_crash_run *outer = nullptr;

    CrashRun(std::string folder_, std::string model_, std::string advice_, std::vector<File> given_)
        : folder(std::move(folder_)), model(std::move(model_)), advice(std::move(advice_)),
          given(std::move(given_)) {
        memory.reserve(given.size());
        for (auto &[name, head, data] : given) {
            memory.emplace_back(data);
            const Py_buffer &view = memory.back().view;
            files.push_back({name.c_str(), head.data(), view.buf, (int64_t)head.size(), view.len});
        }
        run = {folder.c_str(), model.c_str(), advice.c_str(), files.data(), (int64_t)files.size()};
    }
    CrashRun(const CrashRun &) = delete;
    CrashRun &operator=(const CrashRun &) = delete;

    void enter() { outer = gw_set_crash_run(&run); }
    void exit(nb::args) { gw_set_crash_run(outer); }
};

} // namespace

void define_crash_run(nb::module_ &m) {
    nb::class_<CrashRun>(m, "CrashRun")
        .def(nb::init<std::string, std::string, std::string, std::vector<File>>(), nb::arg("folder"),
             nb::arg("model"), nb::arg("advice"), nb::arg("files"))
        .def("__enter__", &CrashRun::enter)
        .def("__exit__", &CrashRun::exit);
}
