"""Partitioned models against ONNX Runtime: their values, how they are split, and whose memory results are."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from onnx import parser

import graphwright as gw
from graphwright.config import Options
from graphwright.executable.nodes import Dispatch
from graphwright.ops.core.unary import Relu
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.executor import RunError
from tests.executables import host_program, targets
from tests.runtime.host_program.expected import assert_same, expected
from tests.runtime.host_program.models import MODELS, Partitioned

Compiled = Callable[[str], tuple[Partitioned, gw.Model]]


@pytest.mark.parametrize("name", MODELS)
def test_values_are_onnx_runtimes(name: str, compiled: Compiled) -> None:
    known, model = compiled(name)
    for number, feed in enumerate(known.feeds):
        assert_same(list(model.run(feed).values()), expected(known.model, feed), f"{name}, feed {number}")


@pytest.mark.parametrize("name", MODELS)
def test_the_host_runs_what_it_must_and_programs_are_few(name: str, compiled: Compiled) -> None:
    known, model = compiled(name)
    program = host_program(model.package)
    assert program is not None and not isinstance(model.executor, Cpu)
    assert [host.op.partition("[")[0] for host in program.hosts()] == known.hosts
    calls = program.calls()
    assert [call.number for call in calls] == list(range(known.programs))
    assert sum(isinstance(call.callee, Dispatch) for call in calls) == known.open_programs
    assert all(host.reason for host in program.hosts())
    assert all(host.reason in model.report() for host in program.hosts())


@pytest.mark.parametrize("name", MODELS)
def test_runs_leave_inputs_and_each_others_results_alone(name: str, compiled: Compiled) -> None:
    known, model = compiled(name)
    kept = [{k: a.copy() for k, a in feed.items()} for feed in known.feeds]
    results = [model.run(feed) for feed in known.feeds]
    copies = [{k: a.copy() for k, a in result.items()} for result in results]
    again = [model.run(feed) for feed in known.feeds]
    for feed, before in zip(known.feeds, kept, strict=True):
        assert all(np.array_equal(feed[k], before[k]) for k in feed)
    for first, copy, second in zip(results, copies, again, strict=True):
        for k, array in first.items():
            assert array.tolist() == copy[k].tolist() == second[k].tolist()
            assert array.flags.writeable and array.flags.c_contiguous
    for feed, result in zip(known.feeds, results, strict=True):
        arrays = [*feed.values(), *result.values()]
        pairs = [(a, b) for k, a in enumerate(arrays) for b in arrays[:k] if a.dtype != object]
        assert not any(np.shares_memory(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", ["detector", "positives", "growing"])
def test_threads_run_side_by_side_and_give_the_same_bits(name: str, compiled: Compiled) -> None:
    known, model = compiled(name)
    wanted = [model.run(feed) for feed in known.feeds]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for result, want in zip(pool.map(model.run, known.feeds), wanted, strict=True):
                assert all(result[k].tobytes() == want[k].tobytes() for k in want)


def test_out_takes_the_results(compiled: Compiled) -> None:
    known, model = compiled("two_in_a_row")
    feed = known.feeds[0]
    wanted = model.run(feed)
    out = {name: np.zeros_like(array) for name, array in wanted.items()}
    got = model.run(feed, out=out)
    for name, array in wanted.items():
        assert got[name] is out[name] and np.array_equal(out[name], array)
    with pytest.raises(gw.FeedError, match=r"output 'y' .*\(2,\)|output .*has"):
        model.run(feed, out={"y": np.zeros(2, np.float32)})
    short = np.zeros(2, np.int64)
    with pytest.raises(gw.FeedError, match="inverse"):
        model.run(feed, out={"inverse": short})


def test_counters_and_traces(compiled: Compiled) -> None:
    known, model = compiled("branching")
    before = model.stats()
    for feed in known.feeds:  # the If each time; NonZero, where it is taken, is a program's
        model.run(feed)
    after = model.stats()
    assert after["runs"] - before["runs"] == 3
    assert after["host_calls"] - before["host_calls"] == 3
    times = model.trace(known.feeds[0])
    assert [t.start for t in times] == sorted(t.start for t in times)
    assert {"If", "BindSize", "gw_non_zero"} <= {t.kernel for t in times}
    assert all(t.start <= t.end for t in times)
    model.trim()
    assert_same(
        list(model.run(known.feeds[0]).values()),
        expected(known.model, known.feeds[0]),
        "trimmed",
    )


@pytest.mark.parametrize("name", ["positives", "texts"])
def test_other_devices_run_the_same_models(name: str, options: Options, compiled: Compiled) -> None:
    known, model = compiled(name)
    reference = gw.compile(known.model, options=replace(options, device="reference"))
    null = gw.compile(known.model, options=replace(options, device="null"))
    for feed in known.feeds:
        assert_same(list(model.run(feed).values()), list(reference.run(feed).values()), name)
        assert [a.ndim for a in null.run(feed).values()] == [a.ndim for a in model.run(feed).values()]


def test_sizes_that_are_no_multiple_are_rejected() -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ["N"])
    b.output("y", b.compress(x, b.greater(x, 0.0), axis=0))
    model = b.compile(shapes={"x": ["4..40%4"]})
    assert model(np.ones(8, np.float32))[0].shape == (8,)
    with pytest.raises(gw.FeedError, match="axis 0 of 'x' must be a multiple of 4, but is 7"):
        model(np.ones(7, np.float32))


def test_an_error_does_not_call_an_intermediate_value_an_input(options: Options) -> None:
    source = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (seq(float[N, 4]) s, int64 i) => (float[M] y) <float[4] w = {1, 2, 3, 4}> {
            item = SequenceAt (s, i) kept = Relu (item) y = MatMul (kept, w)
        }""")
    model, first = gw.compile(source, options=options), np.array(0)
    np.testing.assert_array_equal(model([np.ones((2, 4), np.float32)], first)[0], [10, 10])
    with pytest.raises(gw.FeedError, match=r"^axis 1 of 'item' must be 4, but is 5"):
        model([np.ones((2, 5), np.float32)], first)


def test_feeds_that_do_not_fit_are_rejected(compiled: Compiled) -> None:
    _, model = compiled("positives")
    with pytest.raises(gw.FeedError, match="'x' must have rank 2, but has rank 1"):
        model.run({"x": np.zeros(6, np.float32)})
    with pytest.raises(gw.FeedError, match="axis 1"):
        model.run({"x": np.zeros((2, 7), np.float32)})
    _, reshaped = compiled("reshaped")
    with pytest.raises(RunError, match="elements of"):
        reshaped.run({"x": np.zeros((2, 6), np.float32), "shape": np.array([5, 5])})
    _, texts = compiled("texts")
    with pytest.raises(gw.FeedError, match="takes string"):
        texts.run({"lines": np.zeros(3)})
    assert texts.run({"lines": np.array(["a"])})["y"].shape == (1, 1, 5), "fixed-width texts are taken"


def test_an_ordinary_model_is_one_program(options: Options) -> None:
    builder = gw.GraphBuilder()
    builder.output("y", builder(Relu(), builder.input("x", "f32", ("N", 3))))
    model = builder.compile(options=options)
    assert host_program(model.package) is None and list(targets(model.package))
