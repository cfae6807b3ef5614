"""Runs through the C interface: values, shapes, memory, states, choices between programs, threads."""

from __future__ import annotations

import ctypes
import threading
from ctypes import c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from tests.c_api.library import C, Callback, CError, Model, Request, check, sizes_of
from tests.c_api.models import CLASSES, FEATURES, classified, classifier, rows
from tests.runtime.counter import counter
from tests.runtime.entries import LENGTH, WEIGHT, compiled, feeds
from tests.runtime.host_program.expected import assert_same, expected
from tests.runtime.host_program.models import FLOAT, MODELS, node, onnx_model
from tests.threads import in_threads

Array = np.ndarray[Any, Any]
OPTIONS = gw.CompileOptions(threads=1)


def saved(model: gw.Model, folder: Path) -> Path:
    path = folder / "model.om"
    model.save(path)
    return path


def check_scores(results: list[Array], x: Array) -> None:
    scores, best = classified(x)
    np.testing.assert_allclose(results[0], scores, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(results[1], best)


def test_a_model_says_what_it_takes_and_gives(package: Path) -> None:
    with Model(package) as model:
        assert model.inputs == [f"x: f32[N, {FEATURES}]"]
        assert model.outputs == [f"scores: f32[N, {CLASSES}]", "best: i64[N]"]
        assert model.states == []
        assert C.gw_input(model.handle, c_size_t(1)) is None
        assert C.gw_tensor_size(c_void_p(C.gw_input(model.handle, c_size_t(0))), 0) == -1
        assert C.gw_tensor_size(c_void_p(C.gw_input(model.handle, c_size_t(0))), 7) == -1
    assert C.gw_version().decode() == gw.__version__
    assert C.gw_api_version() == 1001


@settings(max_examples=20, deadline=None)
@given(count=st.sampled_from((0, 1, 2, 3, 7, 8, 16, 31, 64, 257)), in_memory=st.booleans())
def test_results_equal_those_of_numpy(package: Path, count: int, in_memory: bool) -> None:
    x = rows(count, seed=count)
    with Model(package.read_bytes() if in_memory else package) as model:
        check_scores(model.run(x), x)


def test_sizes_change_from_run_to_run(package: Path) -> None:
    with Model(package) as model, Request(model) as request:
        for count in (3, 1, 9, 0, 9, 3):
            request.feed(rows(count))
            check(C.gw_request_plan(request.handle))
            assert request.shape(0) == (count, CLASSES) and request.shape(1) == (count,)
            assert C.gw_request_output_data(request.handle, c_size_t(0)) is None
            check(C.gw_request_run(request.handle))
            check_scores(request.results(), rows(count))
            C.gw_trim(model.handle)


def test_outputs_go_to_memory_of_the_caller(package: Path) -> None:
    x, scores, best = rows(5), np.zeros((5, CLASSES), np.float32), np.zeros(5, np.int64)
    with Model(package) as model:
        model.run(x, out=(scores, best))
        check_scores([scores, best], x)
        with pytest.raises(CError, match="output 'scores' takes 200 bytes, but its buffer has 4"):
            model.run(x, out=(np.zeros(1, np.float32),))
        with pytest.raises(CError, match="output 'best' overlaps"):
            model.run(x, out=(None, x.view(np.int64).reshape(-1)))


def test_results_of_one_run_stay_when_inputs_change(package: Path) -> None:
    """Results also belong to the inputs as they are when the run starts."""
    x = rows(4)
    with Model(package) as model, Request(model) as request:
        request.feed(x)
        check(C.gw_request_run(request.handle))
        first = request.results()
        x *= -1
        check(C.gw_request_run(request.handle))
        check_scores(request.results(), x)
        check_scores(first, rows(4))


def test_inputs_and_buffers_that_do_not_fit_are_rejected(package: Path) -> None:
    with Model(package) as model, Request(model) as request:
        with pytest.raises(CError, match="argument: input 'x' is not set"):
            check(C.gw_request_run(request.handle))
        with pytest.raises(CError, match=r"shape: axis 1 of input 'x' must be 24, but is 23"):
            request.feed(np.zeros((3, 23), np.float32))
        with pytest.raises(CError, match=r"shape: input 'x' must have rank 2, but has rank 1"):
            request.feed(np.zeros(24, np.float32))
        with pytest.raises(CError, match=r"argument: input 'x' of these sizes has 288 bytes, 576 are given"):
            request.feed(np.zeros((3, 24), np.float64))
        with pytest.raises(CError, match=r"shape: axis 0 of input 'x' is dynamic \(N\): give its sizes"):
            check(C.gw_request_set_input(request.handle, c_size_t(0), None, c_size_t(0), None, 0))
        with pytest.raises(CError, match="argument: there is no input 1: the model has 1"):
            request.feed(rows(1), rows(1))
        with pytest.raises(CError, match="is -1, which is not a valid size"):
            sizes = (c_int64 * 2)(-1, FEATURES)
            check(C.gw_request_set_input(request.handle, c_size_t(0), None, c_size_t(0), sizes, 2))
        huge = (c_int64 * 2)(2**62, FEATURES)
        with pytest.raises(CError, match="shape: input 'x' of these sizes is too large for any memory"):
            check(C.gw_request_set_input(request.handle, c_size_t(0), None, c_size_t(0), huge, 2))


def test_inputs_without_a_rank_take_ranks_up_to_64(tmp_path: Path) -> None:
    relu = onnx_model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, None)}, {"y": FLOAT})
    with Model(saved(gw.compile(relu), tmp_path)) as model, Request(model) as request:
        for rank in (-1, 65):
            with pytest.raises(CError, match=f"'x' must have a rank from 0 to 64, but has rank {rank}"):
                sizes = (c_int64 * 65)()
                check(C.gw_request_set_input(request.handle, c_size_t(0), None, c_size_t(0), sizes, rank))


def test_sizes_of_a_static_model_need_not_be_given(tmp_path: Path) -> None:
    x = rows(3)
    with Model(saved(classifier(rows=3).compile(OPTIONS), tmp_path)) as model, Request(model) as request:
        size, data = c_size_t(x.nbytes), c_void_p(x.ctypes.data)
        check(C.gw_request_set_input(request.handle, c_size_t(0), data, size, None, 0))
        check(C.gw_request_run(request.handle))
        check_scores(request.results(), x)


@pytest.mark.parametrize("dtype", ["bool", "i8", "i32", "u8", "u64", "f16", "f64"])
def test_elements_of_all_widths(dtype: str, tmp_path: Path) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", dtype, ("N", 2))
    b.output("y", b.concat(x, x, axis=0))
    given = (np.arange(10).reshape(5, 2) % 2).astype(np.dtype(b.build().main.inputs[0].type.dtype.numpy))
    with Model(saved(b.compile(OPTIONS), tmp_path)) as model:
        (y,) = model.run(given)
    np.testing.assert_array_equal(y, np.concatenate([given, given]))


def test_scalars_run_and_other_ranks_are_rejected(tmp_path: Path) -> None:
    b = gw.GraphBuilder()
    b.output("y", b.add(b.input("x", "f32", ()), b.input("z", "f32", ())))
    with Model(saved(b.compile(OPTIONS), tmp_path)) as model:
        (y,) = model.run(np.array(1.5, np.float32), np.array(2, np.float32))
        with pytest.raises(CError, match="input 'x' must have rank 0, but has rank 1"):
            model.run(np.array([1.5], np.float32), np.array(2, np.float32))
    assert (y.shape, y.item()) == ((), 3.5)


# ---- guards and gears ----


def added() -> gw.GraphBuilder:
    """One size is that of the other, or the compiler has to make another form of the model."""
    b = gw.GraphBuilder()
    b.output("y", b.add(b.input("x", "f32", ("N", "M")), b.input("z", "f32", ("N", "K"))))
    return b


def test_sizes_that_violate_a_guard_are_rejected_and_the_guard_is_named(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with Model(saved(added().compile(OPTIONS), tmp_path)) as model:
        np.testing.assert_array_equal(model.run(x, x)[0], x + x)
        with pytest.raises(CError) as refused:
            model.run(x, x[:, :1])
    assert refused.value.status == "unsupported"
    assert "where M == K" in refused.value.text and "compiles none" in refused.value.text


def test_sizes_that_do_not_agree_are_stated(tmp_path: Path) -> None:
    b = gw.GraphBuilder()
    b.output("y", b.add(b.input("x", "f32", ("N", 3)), b.input("z", "f32", ("N", 3))))
    with Model(saved(b.compile(), tmp_path)) as model, pytest.raises(CError) as refused:
        model.run(np.ones((4, 3), np.float32), np.ones((2, 3), np.float32))
    assert refused.value.status == "shape"
    assert refused.value.text == "axis 0 of 'z' must be N (here 4), but is 2"


def test_gears_take_their_sizes(tmp_path: Path) -> None:
    model = gw.compile(
        classifier().build(), gears=gw.Gears({"x": [(2, FEATURES), (5, FEATURES)]}, between="error")
    )
    with Model(saved(model, tmp_path)) as opened:
        for count in (5, 2):
            check_scores(opened.run(rows(count)), rows(count))
        with pytest.raises(CError, match=r"shape: no gear matches inputs .* x:2,24; x:5,24"):
            opened.run(rows(3))


# ---- sizes that data decide ----


@pytest.mark.parametrize("name", ["detector", "positives", "resized", "two_in_a_row", "counted"])
def test_programs_that_bind_data_dependent_sizes(name: str, tmp_path: Path) -> None:
    known = MODELS[name]()
    with Model(saved(gw.compile(known.model), tmp_path)) as model, Request(model) as request:
        for number, feed in enumerate(known.feeds):
            request.feed(*(feed[text.partition(":")[0]] for text in model.inputs))
            check(C.gw_request_plan(request.handle))
            assert number > 0 or C.gw_request_output_rank(request.handle, c_size_t(0)) == -1  # not known yet
            for _ in range(2):
                check(C.gw_request_run(request.handle))
                assert_same(request.results(), expected(known.model, feed), name)


def test_outputs_of_dynamic_sizes_go_to_memory_of_the_caller(tmp_path: Path) -> None:
    b = gw.GraphBuilder()
    b.output("places", b.nonzero(b.input("x", "f32", ("N",))))
    x, room = np.array([0, 3, 0, 5, 7], np.float32), np.zeros(5, np.int64)
    with Model(saved(b.compile(OPTIONS), tmp_path)) as model, Request(model) as request:
        request.feed(x)
        request.give(room)
        check(C.gw_request_run(request.handle))
        assert request.shape(0) == (1, 3)
        np.testing.assert_array_equal(room, [1, 3, 4, 0, 0])
        request.give(room[:2])
        with pytest.raises(CError, match="output 'places' takes 24 bytes, but its buffer has 16"):
            check(C.gw_request_run(request.handle))


def places_and_input() -> gw.GraphBuilder:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N",))
    b.output("places", b.non_zero(x))
    b.output("same", x)
    return b


def test_outputs_that_are_inputs_outlive_them_beside_dynamic_sizes(tmp_path: Path) -> None:
    x = np.array([0, 3, 0, 5, 7], np.float32)
    with Model(saved(places_and_input().compile(OPTIONS), tmp_path)) as model, Request(model) as request:
        request.feed(x)
        check(C.gw_request_run(request.handle))
        x[:] = -1
        np.testing.assert_array_equal(request.results()[0], [[1, 3, 4]])
        np.testing.assert_array_equal(request.results()[1], [0, 3, 0, 5, 7])


def test_outputs_of_dynamic_sizes_do_not_overlap_inputs(tmp_path: Path) -> None:
    x = np.array([0, 3, 0, 5, 7], np.float32)
    with Model(saved(places_and_input().compile(OPTIONS), tmp_path)) as model, Request(model) as request:
        request.feed(x)
        request.give(x.view(np.int32), np.zeros(5, np.float32))
        with pytest.raises(CError, match="output 'places' takes 24 bytes, but its buffer has 20"):
            check(C.gw_request_run(request.handle))
        request.give(None, x)
        with pytest.raises(CError, match="output 'places' takes"):
            check(C.gw_request_run(request.handle))
        request.give(np.zeros(3, np.int64), x)
        with pytest.raises(CError, match="output 'same' overlaps an input or another output"):
            check(C.gw_request_run(request.handle))
        np.testing.assert_array_equal(x, [0, 3, 0, 5, 7])


def test_dynamic_sizes_of_the_last_run_are_no_plan_of_the_next(tmp_path: Path) -> None:
    x = np.array([0, 3, 0, 5, 7], np.float32)
    with Model(saved(places_and_input().compile(OPTIONS), tmp_path)) as model, Request(model) as request:
        request.feed(x)
        check(C.gw_request_run(request.handle))
        assert request.shape(0) == (1, 3)
        x[:] = 1
        check(C.gw_request_plan(request.handle))
        assert C.gw_request_output_rank(request.handle, c_size_t(0)) == -1
        check(C.gw_request_run(request.handle))
        assert request.shape(0) == (1, 5)


# ---- states and entries ----


def test_states_are_kept_set_and_reset(tmp_path: Path) -> None:
    one = np.ones(3, np.float32)
    with Model(saved(counter(), tmp_path)) as model:
        assert model.inputs == ["x: f32[3]"] and model.states == ["count: f32[3]"]
        for expected in range(3):
            np.testing.assert_array_equal(model.run(one)[0], one * expected)
        kept = np.zeros(3, np.float32)
        check(C.gw_state_get(model.handle, c_size_t(0), c_void_p(kept.ctypes.data), c_size_t(12)))
        np.testing.assert_array_equal(kept, one * 3)
        kept[:] = 7, 8, 9
        check(C.gw_state_set(model.handle, c_size_t(0), c_void_p(kept.ctypes.data), c_size_t(12),
                             sizes_of(kept), 1))  # fmt: skip
        np.testing.assert_array_equal(model.run(one)[0], [7, 8, 9])
        check(C.gw_states_reset(model.handle))
        np.testing.assert_array_equal(model.run(one)[0], one * 0)
        with pytest.raises(CError, match="has 12 bytes, but its buffer has 8"):
            check(C.gw_state_get(model.handle, c_size_t(0), c_void_p(kept.ctypes.data), c_size_t(8)))
        with pytest.raises(CError, match="there is no state 1"):
            check(C.gw_state_get(model.handle, c_size_t(1), None, c_size_t(0)))


def test_names_of_entries_have_hyphens_and_dots(tmp_path: Path) -> None:
    names = ["line-1.b", "page_2", "L" * 300]
    model = gw.compile({name: classifier(rows=k + 1).build() for k, name in enumerate(names)})
    model.save(tmp_path / "m.om")
    assert list(gw.load(tmp_path / "m.om").entries) == names
    with Model(tmp_path / "m.om") as first:
        for k, name in enumerate(names):
            (_, best) = Model(name, owner=first).run(rows(k + 1))
            np.testing.assert_array_equal(best, classified(rows(k + 1))[1])


def test_entries_share_their_states(tmp_path: Path) -> None:
    prompt, token = feeds(5)
    with Model(saved(compiled(), tmp_path)) as prefill:
        names = [C.gw_entry_name(prefill.handle, c_size_t(k)) for k in range(3)]
        assert names == [b"prefill", b"decode", None]
        decode = Model("decode", owner=prefill)
        (filled,) = prefill.run(prompt)
        np.testing.assert_allclose(filled, prompt @ WEIGHT, rtol=1e-5, atol=1e-5)
        (total,) = decode.run(token, np.array([[5]], np.int64))
        np.testing.assert_allclose(
            total, (prompt @ WEIGHT).sum(0) + (token @ WEIGHT)[0], rtol=1e-4, atol=1e-4
        )
        assert LENGTH > 5
        with pytest.raises(CError, match="there is no entry 'encode'"):
            Model("encode", owner=prefill)


# ---- threads ----


def test_started_runs_call_back(package: Path) -> None:
    ended: list[tuple[int, bytes | None]] = []

    @Callback
    def callback(handle: int, status: int, text: bytes | None, user: int) -> None:
        ended.append((status, text))

    with Model(package) as model, Request(model) as request:
        request.feed(rows(3))
        for _ in range(20):
            check(C.gw_request_start(request.handle, callback, None))
            check(C.gw_request_wait(request.handle))
        check_scores(request.results(), rows(3))
        request.give(np.zeros(1, np.float32))
        check(C.gw_request_start(request.handle, callback, None))
        assert C.gw_request_wait(request.handle) == 1
    assert ended[:-1] == [(0, None)] * 20
    assert ended[-1][0] == 1 and b"output 'scores' takes" in (ended[-1][1] or b"")


def test_a_busy_request_is_rejected(package: Path) -> None:
    """The callback waits on another request until all calls have been tried; inside its own callback, a
    request is idle.
    """
    started, tried = threading.Event(), threading.Event()

    @Callback
    def callback(handle: int, status: int, text: bytes | None, user: int) -> None:
        started.set()
        tried.wait(60)

    with Model(package) as model, Request(model) as request:
        request.feed(rows(3))
        check(C.gw_request_start(request.handle, callback, None))
        assert started.wait(60)
        check(C.gw_request_run(request.handle))  # idle: the callback is called behind the run
        tried.set()
        check(C.gw_request_wait(request.handle))


def test_a_callback_that_waits_for_its_own_request_is_rejected(package: Path) -> None:
    statuses: list[int] = []

    @Callback
    def callback(handle: int, status: int, text: bytes | None, user: int) -> None:
        statuses.append(C.gw_request_wait(c_void_p(handle)))

    with Model(package) as model, Request(model) as request:
        request.feed(rows(3))
        check(C.gw_request_start(request.handle, callback, None))
        check(C.gw_request_wait(request.handle))
        check_scores(request.results(), rows(3))
    assert statuses == [1]


def test_runs_of_several_threads(package: Path) -> None:
    def work(seed: int) -> None:
        x = rows(seed + 1, seed)
        with Request(model) as request:
            for _ in range(50):
                request.feed(x)
                check(C.gw_request_run(request.handle))
                check_scores(request.results(), x)

    with Model(package) as model:
        check(C.gw_model_set_threads(model.handle, 2))
        in_threads(work, range(8))


def test_error_texts_belong_to_their_thread(package: Path) -> None:
    with pytest.raises(CError, match="no-such-file"):
        Model("no-such-file.om")
    texts: list[bytes] = []
    other = threading.Thread(target=lambda: texts.append(C.gw_error_text()))
    other.start()
    other.join()
    assert texts == [b""] and b"no-such-file.om" in C.gw_error_text()


def test_null_is_rejected_and_never_read() -> None:
    handle = c_void_p()
    calls = (
        C.gw_open(None, None, ctypes.byref(handle)),
        C.gw_open(b"x", None, None),
        C.gw_open_memory(None, c_size_t(3), None, ctypes.byref(handle)),
        C.gw_request_create(None, ctypes.byref(handle)),
        C.gw_request_run(None),
        C.gw_request_wait(None),
        C.gw_options_set_trust(None, 1),
        C.gw_states_reset(None),
        C.gw_set_threads(-1),
    )
    assert set(calls[:1] + calls[1:]) == {1}
    C.gw_close(None), C.gw_request_destroy(None), C.gw_options_destroy(None), C.gw_trim(None)
    assert C.gw_input_count(None) == C.gw_state_count(None) == C.gw_entry_count(None) == 0
    assert C.gw_tensor_name(None) is None and C.gw_tensor_rank(None) == -1
