"""Dynamic dimensions of 0, of 1 or equal to others: programs assume the likely case, and other forms of the
model run the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from graphwright.compiler.recompile import sizes_that_break
from graphwright.ir.symbols import parse_constraint
from tests.executables import dispatch

Arrays = Mapping[str, np.ndarray[Any, Any]]
onnxruntime.set_default_logger_severity(4)


def model(nodes: list[onnx.NodeProto], inputs: Mapping[str, list[Any]], **constants: Any) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    output = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    graph = helper.make_graph(nodes, "sizes", infos, [output], tensors)
    opsets = [helper.make_opsetid("", 17)]
    made = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=9))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=f"{op.lower()}_{output}", **attributes)


MODELS = {
    "squeeze": model(
        [node("Squeeze", "x", "s"), node("Softmax", "s", axis=0)],
        {"x": ["N", 3, 1]},
    ),
    "squeeze then rank": model(
        [
            node("Squeeze", "x", "s"),
            node("Shape", "s", "dims"),
            node("Size", "dims", "rank"),
            node("Cast", "rank", "r", to=TensorProto.FLOAT),
            node("Mul", "s r"),
        ],
        {"x": ["N", 1, "M"]},
    ),
    "add": model([node("Add", "a b")], {"a": ["N", 3], "b": ["M", 3]}),
    "add a constant": model([node("Add", "a c")], {"a": ["N", 2]}, c=np.ones((4, 2), np.float32)),
    "expand to another's shape": model(
        [node("Shape", "a", "to"), node("Expand", "b to")], {"a": ["N", 3], "b": ["M", 3]}
    ),
    "a shape that followed from a broadcast": model(
        [
            node("Add", "a b", "sum"),
            node("Shape", "sum", "to"),
            node("Reshape", "sum flat", "f"),
            node("Reshape", "f to"),
        ],
        {"a": ["N", 3], "b": ["M", 3]},
        flat=np.array([-1]),
    ),
    "matrices of batches": model([node("MatMul", "a b")], {"a": ["N", 2, 3], "b": ["M", 3, 2]}),
    "einsum": model([node("Einsum", "a b", equation="ij,jk->ik")], {"a": ["N", 2], "b": ["M", 3]}),
    "where": model(
        [node("Greater", "a b", "c"), node("Where", "c a b")],
        {"a": ["N", "K"], "b": ["M", 3]},
    ),
    "slice to the size of another": model(
        [
            node("Shape", "a", "dims"),
            node("Gather", "dims zero", "n"),
            node("Sub", "n two", "end"),
            node("Slice", "b first end zero"),
        ],
        {"a": ["N", 3], "b": ["M", 3]},
        zero=np.array([0]),
        two=np.array([2]),
        first=np.array([0]),
    ),
    "the last row with all rows of another": model(
        [node("Slice", "a minus_one end zero", "last"), node("Add", "b last")],
        {"a": ["N", 3], "b": ["M", 3]},
        zero=np.array([0]),
        minus_one=np.array([-1]),
        end=np.array([2**31]),
    ),
    "a size of a weight that follows for both operands of a broadcast": model(
        [node("Add", "a b", "sum"), node("MatMul", "sum w")],
        {"a": [2, "N"], "b": [2, "M"]},
        w=np.arange(12, dtype=np.float32).reshape(4, 3),
    ),
    "pool": model(
        [node("MaxPool", "a", kernel_shape=[2], strides=[2])],
        {"a": [1, 3, "M"]},
    ),
}
SIZES = (0, 1, 2, 4)


def feeds(proto: onnx.ModelProto, sizes: Iterable[int] = SIZES) -> Iterable[Arrays]:
    """Random inputs, with every size that is open taking each of ``sizes``."""
    rng = np.random.default_rng(0)
    shapes = {info.name: info.type.tensor_type.shape.dim for info in proto.graph.input}
    dims = {name: [dim.dim_param or dim.dim_value for dim in shape] for name, shape in shapes.items()}
    names = sorted({dim for shape in dims.values() for dim in shape if isinstance(dim, str)})
    for chosen in product(sizes, repeat=len(names)):
        known = dict(zip(names, chosen, strict=True))
        yield {
            name: rng.standard_normal([known.get(dim, dim) for dim in shape]).astype(np.float32)
            for name, shape in dims.items()
        }


def results(session: onnxruntime.InferenceSession, feed: Arrays) -> np.ndarray[Any, Any] | None:
    """ONNX Runtime's result; None where it refuses the sizes."""
    try:
        (result,) = session.run(None, dict(feed))
    except Exception:
        return None
    return np.asarray(result)


@pytest.mark.parametrize("name", MODELS)
def test_every_size_gives_what_onnx_runtime_gives(name: str, tmp_path: Path) -> None:
    """The model is compiled, loaded from a file, and compiled again from an untrusted file."""
    proto = MODELS[name]
    made = gw.compile(proto)
    made.save(tmp_path / "m.om")
    stranger = gw.CompileOptions.from_environment(key_dir=tmp_path / "keys")
    models = (made, gw.load(tmp_path / "m.om"), gw.load(tmp_path / "m.om", options=stranger))
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    fits = 0
    for feed in feeds(proto):
        expected = results(session, feed)
        for each in models:
            if expected is None:
                with pytest.raises(gw.FeedError):
                    each.run(feed)
                continue
            fits += 1
            (actual,) = each.run(feed).values()
            assert actual.shape == expected.shape, {k: v.shape for k, v in feed.items()}
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    assert fits > 3


def test_the_likely_sizes_need_no_other_form() -> None:
    """One form for sizes of 1 also serves all sizes of the other forms."""
    compiled = gw.compile(MODELS["add"])
    assert [case.guards for case in dispatch(compiled.package).cases] == [("N == M (node add_y)",)]
    for n, m in ((3, 3), (3, 1), (9, 1), (1, 1), (1, 5), (1, 7)):
        compiled(np.ones((n, 3), np.float32), np.ones((m, 3), np.float32))
    assert compiled.stats()["cases"] == 3  # N == M, M == 1, N == 1


def test_one_row_needs_no_other_form() -> None:
    """A slice of at most one row is assumed to have one, not the number of rows of the other operand."""
    compiled = gw.compile(MODELS["the last row with all rows of another"])
    assert [case.guards for case in dispatch(compiled.package).cases] == [("min(1, N) == 1 (node add_y)",)]
    for n, m in ((3, 3), (3, 1), (1, 1), (5, 7)):
        compiled(np.ones((n, 3), np.float32), np.ones((m, 3), np.float32))
    assert compiled.stats()["cases"] == 1


def test_data_dependent_sizes_are_assumed_equal_too() -> None:
    """The nonzero rows are added to a row of the same number of elements, or to a single element."""
    proto = model(
        [
            node("NonZero", "a", "places"),
            node("Cast", "places", "p", to=TensorProto.FLOAT),
            node("Add", "p b"),
        ],
        {"a": ["N"], "b": [1, "M"]},
    )
    compiled = gw.compile(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    rng = np.random.default_rng(1)
    for ones, m in ((3, 3), (3, 1), (1, 4), (0, 1), (0, 0), (2, 2)):
        feed = {"a": np.array([1.0] * ones + [0.0] * 2, np.float32), "b": rng.random((1, m), np.float32)}
        np.testing.assert_allclose(compiled.run(feed)["y"], session.run(None, feed)[0])


def test_data_dependent_sizes_may_be_1_if_all_inputs_are_static(tmp_path: Path) -> None:
    """PyTorch exports EmbeddingBag in this way: slices of two rows, one of which may be a single element."""
    text = """<ir_version: 9, opset_import: ["": 17]>
        g (float[2, 6] a, int64[4] cuts) => (float[M, K] y) {
            axis = Constant <value = int64[1] {1}> ()
            b = Constant <value = float[8] {1, 2, 3, 4, 5, 6, 7, 8}> ()
            from_a, to_a, from_b, to_b = Split (cuts)
            left = Slice (a, from_a, to_a, axis)
            right = Slice (b, from_b, to_b)
            y = Mul (left, right)
        }"""
    a, b = np.arange(12, dtype=np.float32).reshape(2, 6), np.arange(1, 9, dtype=np.float32)
    gw.compile(onnx.parser.parse_model(text)).save(tmp_path / "cut.om")
    for compiled in (gw.compile(onnx.parser.parse_model(text)), gw.load(tmp_path / "cut.om")):
        for cuts in ((0, 6, 1, 7), (1, 2, 1, 5), (0, 5, 3, 4), (2, 2, 0, 1), (0, 3, 5, 8)):
            wanted = a[:, cuts[0] : cuts[1]] * b[cuts[2] : cuts[3]]
            np.testing.assert_array_equal(compiled(a, np.array(cuts))[0], wanted)
        with pytest.raises(gw.GraphwrightError, match="2 and 3 differ"):
            compiled(a, np.array((0, 2, 0, 3)))


@pytest.mark.parametrize(
    "guards, sizes, expected",
    [
        (["N == M"], {"N": 5, "M": 1}, {"M": 1}),
        (["N == M"], {"N": 5, "M": 2}, {"N": 5, "M": 2}),
        (["N != 1"], {"N": 1}, {"N": 1}),
        (["0 <= N - 2", "N == M"], {"N": 1, "M": 1}, {"N": 1}),
        (["floordiv(H, 2) == M"], {"H": 3, "M": 4}, {"H": 3}),
        (["N == M"], {"N": 4, "M": 4}, {}),
    ],
)
def test_the_sizes_that_must_be_fixed_for_violated_guards(
    guards: list[str], sizes: dict[str, int], expected: dict[str, int]
) -> None:
    assert sizes_that_break([parse_constraint(text) for text in guards], sizes) == expected


def test_sizes_that_no_form_accepts_are_rejected() -> None:
    """Each of N rows has a scale: if N is 1, no form of the model accepts more scales."""
    made = gw.compile(model([node("QuantizeLinear", "x scale", axis=0)], {"x": ["N", 4], "scale": ["M"]}))
    for rows in (6, 1):
        x, scale = np.full((rows, 4), 3, np.float32), np.linspace(1, 2, rows).astype(np.float32)
        np.testing.assert_array_equal(made(x, scale)[0], np.rint(x / scale[:, None]).astype(np.uint8))
    with pytest.raises(gw.GraphwrightError, match=r"axis 0 .*must be 1, but is 6"):
        made(np.ones((1, 4), np.float32), np.ones(6, np.float32))


def test_sizes_that_no_form_accepts_are_rejected_with_further_guards() -> None:
    """The form for one row requires that the row has one scale, and assumes more about the scales of
    columns.
    """
    operands = "a a_scale a_zero b b_scale b_zero y_scale y_zero"
    infos = {"a": ["N", 4], "a_scale": ["P"], "b": [4, "M"], "b_scale": ["Q"]}
    kinds = {"a": TensorProto.INT8, "b": TensorProto.INT8}
    inputs = [helper.make_tensor_value_info(k, kinds.get(k, TensorProto.FLOAT), v) for k, v in infos.items()]
    zero = numpy_helper.from_array(np.zeros((), np.int8), "y_zero")
    scale = numpy_helper.from_array(np.ones((), np.float32), "y_scale")
    nodes = [node("QLinearMatMul", operands.replace("a_zero", "y_zero").replace("b_zero", "y_zero"))]
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(nodes, "products", inputs, [output], [zero, scale])
    made = gw.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    a, b = np.full((1, 4), 2, np.int8), np.full((4, 5), 3, np.int8)
    one, many = np.ones(1, np.float32), np.ones(5, np.float32)
    np.testing.assert_array_equal(made(a, one, b, many)[0], np.full((1, 5), 24, np.int8))
    with pytest.raises(gw.FeedError, match="axis 0 of 'a_scale' must be 1, but is 3"):
        made(a, np.ones(3, np.float32), b, many)
