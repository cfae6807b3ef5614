/* Recordings for Python: the events of all threads as bytes, and the plans (by serial) and texts (by number)
   that they refer to. */
#include <map>

#include "binding.hpp"

extern "C" {
#include "clock.h"
}

namespace {

/* What the events of the active recording refer to; guarded by the GIL. */
struct Referents {
    int readers = 0;
    nb::object plans, texts; /* serial -> (about, numbers); text -> number */
};
Referents *referents = nullptr; /* never freed: the interpreter may end before the last thread */

void join() {
    if (!referents)
        referents = new Referents;
    if (referents->readers++ > 0)
        return;
    referents->plans = nb::dict();
    referents->texts = nb::dict();
}

void leave() {
    if (--referents->readers > 0)
        return;
    referents->plans = nb::object();
    referents->texts = nb::object();
}

int checked_counter(int counter) {
    if (counter < 0 || counter >= GW_COUNTERS)
        throw nb::value_error("unknown counter");
    return counter;
}

/* Records the events of the process until `stop`. */
struct Recording {
    gw_recording *recording;
    gw_recording_request request;
    std::map<const gw_event_buffer *, std::pair<int64_t, int64_t>>
        before; /* events recorded and lost before */
    int64_t lost_before;
    nb::object plans, texts;

    Recording(int64_t capacity, bool processor, const std::vector<int> &counters)
        : request{capacity, processor, (int)counters.size(), {}} {
        if (capacity < 1)
            throw nb::value_error("capacity must be at least 1");
        if (counters.size() > GW_MOST_COUNTERS)
            throw nb::value_error("at most 4 counters are supported");
        for (size_t i = 0; i < counters.size(); i++)
            request.counters[i] = checked_counter(counters[i]);
        bool clash = false;
        recording = gw_recording_start(&request, &clash);
        if (clash)
            throw nb::value_error("another recording uses other counters");
        if (!recording)
            throw std::bad_alloc();
        join();
        plans = referents->plans;
        texts = referents->texts;
        for (gw_event_buffer *b = gw_last_buffer(recording); b; b = gw_buffer_before(b))
            before[b] = {gw_buffer_count(b), gw_buffer_lost(b)};
        lost_before = gw_recording_lost(recording);
    }
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;
    ~Recording() { stop(); }

    void stop() {
        if (!recording)
            return;
        gw_recording_stop(recording, &request);
        recording = nullptr;
        leave();
    }

    /* A tuple for each thread: its number, its name, its events, the number of lost events. */
    nb::list threads() const {
        nb::list result;
        for (gw_event_buffer *b = recording ? gw_last_buffer(recording) : nullptr; b;
             b = gw_buffer_before(b)) {
            const auto found = before.find(b);
            const auto [first, lost] = found == before.end() ? std::pair<int64_t, int64_t>{} : found->second;
            const int64_t end = gw_buffer_count(b);
            nb::object events =
                nb::steal(PyBytes_FromStringAndSize(nullptr, (end - first) * (int64_t)sizeof(gw_event)));
            if (!events.is_valid())
                throw nb::python_error();
            gw_buffer_copy(b, first, end, (gw_event *)PyBytes_AS_STRING(events.ptr()));
            result.append(
                nb::make_tuple(gw_buffer_thread(b), gw_buffer_name(b), events, gw_buffer_lost(b) - lost));
        }
        return result;
    }

    int64_t lost() const { return recording ? gw_recording_lost(recording) - lost_before : 0; }
};

/* The number of `text` in the active recording. */
int64_t number_of(nb::handle text) {
    nb::object found = nb::steal(PyObject_CallMethod(referents->texts.ptr(), "setdefault", "On", text.ptr(),
                                                     PyDict_GET_SIZE(referents->texts.ptr())));
    if (!found.is_valid())
        throw nb::python_error();
    return nb::cast<int64_t>(found);
}

/* Records an event of this thread, of a kind that Python defines, if a recording is active. */
void record(int kind, nb::str text, int64_t start, int64_t end, int64_t a, int64_t b) {
    if (kind < GW_EVENT_OTHERS)
        throw nb::value_error("the kind is reserved for the runtime");
    if (!gw_is_recording() || !referents || referents->readers == 0)
        return;
    const gw_event event = {start, end, kind, 0, 0, number_of(text), a, b, 0, {}};
    gw_note(&event);
}

} // namespace

/* If memory is exhausted, the events remain and readers report an unknown plan. */
void note_plan(const Program &p, const gw_plan *plan) try {
    if (!referents || referents->readers == 0)
        return;
    nb::object plans = referents->plans, serial = nb::int_(plan->serial);
    if (PyDict_Contains(plans.ptr(), serial.ptr()) == 0)
        plans[serial] = nb::make_tuple(p.about, plan_info(p, plan));
} catch (nb::python_error &) { /* clears the Python error */
} catch (const std::bad_alloc &) {
}

void define_events(nb::module_ &m) {
    m.def("is_recording", gw_is_recording);
    m.def(
        "can_count", [](int counter) { return gw_can_count(checked_counter(counter)); }, nb::arg("counter"));
    m.def("now", gw_now);
    m.def("record", record, nb::arg("kind"), nb::arg("text"), nb::arg("start"), nb::arg("end"),
          nb::arg("a") = 0, nb::arg("b") = 0);
    nb::class_<Recording>(m, "Recording")
        .def(nb::init<int64_t, bool, std::vector<int>>(), nb::arg("capacity") = 1 << 20,
             nb::arg("processor") = false, nb::arg("counters") = std::vector<int>())
        .def("threads", &Recording::threads)
        .def("stop", &Recording::stop)
        .def_prop_ro("lost", &Recording::lost)
        .def_ro("plans", &Recording::plans)
        .def_ro("texts", &Recording::texts);
}
