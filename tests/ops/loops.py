"""ONNX models with loops, written down shortly; and what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import graphwright as gw
from graphwright.config import Options

Array = np.ndarray[Any, Any]
Shape = Sequence[int | str] | None
RNG = np.random.default_rng(0)


def info(name: str, shape: Shape, dtype: Any = np.float32) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def const(name: str, value: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """``node("Add", "x y", "z")``; ``_`` is an absent input."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), outputs.split()[0], **attributes)


def body(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: Sequence[onnx.TensorProto] = (),
) -> onnx.GraphProto:
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    return helper.make_graph(nodes, "body", inputs, results, constants)


NUMBER, GOES_ON = info("i", (), np.int64), info("on", (), bool)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: Sequence[onnx.TensorProto] = (),
    opset: int = 18,
) -> onnx.ModelProto:
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def by_runtime(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(r) for r in session.run(None, dict(feeds))]


def compiled(proto: onnx.ModelProto, device: str = "reference", **options: Any) -> gw.Model:
    return gw.compile(
        proto, options=replace(Options.from_environment(), device=device, verify=True, **options)
    )


def by_us(proto: onnx.ModelProto, feeds: Mapping[str, Array], device: str = "reference") -> list[Array]:
    return list(compiled(proto, device).run(dict(feeds)).values())


def compare(proto: onnx.ModelProto, feeds: Mapping[str, Array], device: str = "reference") -> list[Array]:
    """Assert that both give the same; what they give."""
    expected, actual = by_runtime(proto, feeds), by_us(proto, feeds, device)
    for a, e in zip(actual, expected, strict=True):
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5)
    return actual


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def accumulating(trips: int | str | None, shape: Any, step: str = "Add", *, conditional: bool = False) -> Any:
    """``h = step(h, x)``, of which each is scanned; with a condition until the sum of h is 10 or more.

    ``trips`` is ``fed`` where an input tells it.
    """
    nodes = [
        node(step, "h x", "g"),
        node("Identity", "g", "s"),
        node("ReduceSum", "g", "total", keepdims=0),
        node("Less", "total ten", "go") if conditional else node("Identity", "on", "go"),
    ]
    inner = body(nodes, [NUMBER, GOES_ON, info("h", None)], ["go", "g", "s"], [const("ten", 10.0)])
    trip = [] if trips is None or isinstance(trips, str) else [const("T", trips, np.asarray(trips).dtype)]
    loop = node("Loop", f"{'_' if trips is None else 'T'} yes h0", "y ys", body=inner)
    inputs = [info("h0", shape), info("x", shape), *[info("T", (), np.int64)] * isinstance(trips, str)]
    return model([loop], inputs, ["y", "ys"], [*trip, const("yes", value=True, dtype=bool)])


def growing() -> Any:
    """``h = concat(h, x)``: a size that runs change."""
    nodes = [node("Identity", "on", "go"), node("Concat", "h x", "g", axis=0)]
    inner = body(nodes, [NUMBER, GOES_ON, info("h", ("k", 3))], ["go", "g"])
    loop = node("Loop", "T _ h0", "y", body=inner)
    inputs = [info("T", (), np.int64), info("h0", ("N", 3)), info("x", (2, 3))]
    return model([loop], inputs, ["y"])


def unsqueezing() -> Any:
    """``h = unsqueeze(h)``: a rank that runs change."""
    nodes = [node("Identity", "on", "go"), node("Unsqueeze", "h axes", "g")]
    inner = body(nodes, [NUMBER, GOES_ON, info("h", None)], ["go", "g"], [const("axes", [0], np.int64)])
    loop = node("Loop", "T _ h0", "y", body=inner)
    return model([loop], [info("T", (), np.int64), info("h0", (3,))], ["y"])


def scanning(
    axes: Any = None, flags: Any = None, out_axis: int = 0, out_flag: int = 0, length: Any = 4
) -> Any:
    """A running sum of x * w, two scan inputs of which one may be read along another axis."""
    nodes = [node("Mul", "a b", "p"), node("Add", "s p", "t"), node("Identity", "t", "u")]
    inner = body(nodes, [info("s", (3,)), info("a", (3,)), info("b", (3,))], ["t", "u"])
    shapes = [[3], [3]]
    for shape, axis in zip(shapes, axes or (0, 0), strict=True):
        shape.insert(axis, length)
    given: dict[str, Any] = {"num_scan_inputs": 2, "body": inner}
    if axes:
        given["scan_input_axes"] = axes
    if flags:
        given["scan_input_directions"] = flags
    given |= {"scan_output_axes": [out_axis], "scan_output_directions": [out_flag]}
    return model(
        [node("Scan", "s0 x w", "y ys", **given)],
        [info("s0", (3,)), info("x", shapes[0]), info("w", shapes[1])],
        ["y", "ys"],
    )
