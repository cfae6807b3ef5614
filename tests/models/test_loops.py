"""Small models with loops as exporters write them: a recurrent cell, a running sum, greedy decoding."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from tests.native_ops.loops import compare, copies_in_loops, loops_of, native, program_of, results
from tests.ops.loops import GOES_ON, NUMBER, body, const, info, model, node

RNG = np.random.default_rng(5)


def weights(name: str, *shape: int) -> Any:
    return const(name, RNG.standard_normal(shape) / np.sqrt(shape[0]))


def cell(batch: int, inputs: int, hidden: int) -> Any:
    """h = tanh(x[i] W + h R + b), all states as rows."""
    nodes = [
        node("Identity", "on", "go"),
        node("Gather", "x i", "row", axis=0),
        node("MatMul", "row W", "xw"),
        node("MatMul", "h R", "hr"),
        node("Add", "xw hr", "sum"),
        node("Add", "sum b", "biased"),
        node("Tanh", "biased", "g"),
        node("Identity", "g", "out"),
    ]
    inner = body(nodes, [NUMBER, GOES_ON, info("h", (batch, hidden))], ["go", "g", "out"])
    before = [node("Shape", "x", "shape"), node("Gather", "shape zero", "T", axis=0)]
    loop = node("Loop", "T yes h0", "last all", body=inner)
    constants = [
        weights("W", inputs, hidden),
        weights("R", hidden, hidden),
        weights("b", hidden),
        const("zero", 0, np.int64),
        const("yes", value=True, dtype=bool),
    ]
    feeds = [info("x", ("T", batch, inputs)), info("h0", (batch, hidden))]
    return model([*before, loop], feeds, ["last", "all"], constants)


@pytest.mark.parametrize("length", [1, 2, 17])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_recurrent_cell(batch: int, length: int) -> None:
    x, h = RNG.standard_normal((length, batch, 5)), RNG.standard_normal((batch, 32))
    feeds = {"x": x.astype(np.float32), "h0": h.astype(np.float32)}
    made = compare(cell(batch, 5, 32), feeds)
    assert made.stats()["host_calls"] == 0
    assert copies_in_loops(made) <= 1  # a product reads all of h before any of its successor is written


def running_sum(length: Any, width: int) -> Any:
    nodes = [node("Add", "s a", "t"), node("Identity", "t", "u")]
    inner = body(nodes, [info("s", (width,)), info("a", (width,))], ["t", "u"])
    scan = node("Scan", "s0 x", "total sums", body=inner, num_scan_inputs=1)
    return model([scan], [info("x", (length, width))], ["total", "sums"], [const("s0", np.zeros(width))])


def test_a_running_sum() -> None:
    made = native(running_sum("T", 129))
    assert copies_in_loops(made) == 0
    for length in (0, 1, 2, 31):
        x = RNG.standard_normal((length, 129)).astype(np.float32)
        total, sums = results(made, {"x": x})
        np.testing.assert_allclose(sums, np.cumsum(x, axis=0), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(total, sums[-1] if length else np.zeros(129, np.float32))


def decoder(most: int, tokens: int, width: int, end: int) -> Any:
    """Greedy decoding into a list of ``most`` tokens, until the token ``end``."""
    nodes = [
        node("Gather", "E token", "e", axis=0),
        node("MatMul", "e W", "ew"),
        node("MatMul", "h R", "hr"),
        node("Add", "ew hr", "sum"),
        node("Tanh", "sum", "h2"),
        node("MatMul", "h2 V", "logits"),
        node("ArgMax", "logits", "token2", axis=1, keepdims=0),
        node("Equal", "places i", "here"),
        node("Where", "here token2 list", "list2"),
        node("Equal", "token2 end", "stops"),
        node("Not", "stops", "goes"),
        node("Squeeze", "goes", "go"),
    ]
    carried = [info("token", (1,), np.int64), info("h", (1, width)), info("list", (most,), np.int64)]
    inner = body(nodes, [NUMBER, GOES_ON, *carried], ["go", "token2", "h2", "list2"])
    loop = node("Loop", "most yes first h0 empty", "last state decoded", body=inner)
    constants = [
        const("E", RNG.standard_normal((tokens, width))),
        weights("W", width, width),
        weights("R", width, width),
        const("V", RNG.standard_normal((width, tokens))),
        const("most", most, np.int64),
        const("yes", value=True, dtype=bool),
        const("end", [end], np.int64),
        const("empty", np.full(most, -1), np.int64),
        const("places", np.arange(most), np.int64),
    ]
    return model([loop], [info("first", (1,), np.int64), info("h0", (1, width))], ["decoded"], constants)


def test_greedy_decoding_is_one_native_loop() -> None:
    proto = decoder(20, 40, 24, end=7)
    made = native(proto)
    assert len(loops_of(made)) == 1
    assert not program_of(made).hosts
    lengths = set()
    for first in range(6):
        h = RNG.standard_normal((1, 24)).astype(np.float32)
        feeds = {"first": np.array([first]), "h0": h}
        compare(proto, feeds)
        lengths.add(int((results(made, feeds)[0] >= 0).sum()))
    assert len(lengths) > 1, "no run ended before another"


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_a_scan_of_inputs_without_rank_takes_that_of_its_body(device: str) -> None:
    """The graph computes running sums of rows and their positive parts."""
    inner = [helper.make_node("Add", ["s", "x"], ["next"]), helper.make_node("Relu", ["next"], ["each"])]
    typed = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None]) for n in ("s", "x", "next", "each")]
    body = helper.make_graph(inner, "body", typed[:2], typed[2:])
    scan = helper.make_node("Scan", ["start", "rows"], ["last", "all"], body=body, num_scan_inputs=1)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("start", "rows")]
    graph = helper.make_graph([scan], "g", inputs, [onnx.ValueInfoProto(name=n) for n in ("last", "all")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    model = gw.compile(proto, options=gw.CompileOptions(device=device))
    start, rows = np.array([1, 2], np.float32), np.array([[1, -5], [2, 3], [4, 5]], np.float32)
    found = model.run({"start": start, "rows": rows})
    sums = start + np.cumsum(rows, 0)
    assert np.array_equal(found["last"], sums[-1])
    assert np.array_equal(found["all"], np.maximum(sums, 0))
