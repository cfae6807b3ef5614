"""Makers of branches and loops."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from .draft import Draft
from .makers import SIGNED, makes

BODIES = ("Abs", "Neg", "Relu", "Identity")


def body(name: str, nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str]) -> onnx.GraphProto:
    infos = [[onnx.ValueInfoProto(name=n) for n in names] for names in (inputs, outputs)]
    return helper.make_graph(nodes, name, *infos)


@makes("If")
def branches(g: Draft, op: str) -> None:
    x = g.operand(SIGNED, (1, 2, 3), known=True)
    y = g.partner(x)
    then = body(
        "then",
        [
            helper.make_node("Add", [x.name, y.name], ["t1"]),
            helper.make_node(g.pick("Neg", "Abs"), ["t1"], ["t"]),
        ],
        [],
        ["t"],
    )
    other = body("else", [helper.make_node(g.pick("Mul", "Sub"), [x.name, y.name], ["e"])], [], ["e"])
    g.used.update((x.name, y.name))
    condition = g.fresh("bool", g.pick([], [1]))
    g.node(op, [condition], then_branch=then, else_branch=other)


@makes("Loop")
def loop(g: Draft, op: str) -> None:
    x = g.operand(SIGNED, (0, 1, 2), known=True)
    y = g.fresh(x.dtype, [g.twin(d) for d in x.dims or ()])
    g.used.add(y.name)
    inner = [
        helper.make_node("Identity", ["c"], ["again"]),
        helper.make_node(g.pick("Add", "Sub"), ["s", y.name], ["next"]),
        helper.make_node(g.pick("Neg", "Identity"), ["next"], ["each"]),
    ]
    inputs = [
        helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
        helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
        helper.make_tensor_value_info(
            "s", helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)), [None] * x.rank
        ),
    ]
    outputs = [onnx.ValueInfoProto(name=n) for n in ("again", "next", "each")]
    trips = g.control(np.array(g.pick(0, 1, 3), np.int64))
    g.node(
        op, [trips, g.weight(np.array(True)), x], 2, body=helper.make_graph(inner, "body", inputs, outputs)
    )


@makes("Scan")
def scan(g: Draft, op: str) -> None:
    if g.opset < 9:
        return
    steps, width = g.dim(1, 2, 3, 5), g.dim()
    state, x = g.fresh("float32", [g.twin(width)]), g.fresh("float32", [steps, width])
    inner = [helper.make_node("Add", ["s", "x"], ["next"]), helper.make_node("Relu", ["next"], ["each"])]
    typed = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [None]) for n in ("s", "x", "next", "each")
    ]
    graph = helper.make_graph(inner, "body", typed[:2], typed[2:])
    g.node(op, [state, x], 2, body=graph, num_scan_inputs=1, scan_input_directions=[g.pick(0, 1)])
