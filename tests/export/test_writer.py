"""Models that the writer produces: names, sizes, weights, control flow, and rejected modules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
import graphwright.ops
from graphwright.errors import ModelError
from graphwright.export.onnx import OPSET, save_model, write_model
from graphwright.frontends.onnx import load
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import floordiv, maximum, mod, symbol
from graphwright.ir.types import DTYPES, F32, tensor
from graphwright.ops.core.binary import Add
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.unary import Erfc, Expm1, Relu
from tests.export.peers import session

graphwright.ops.load()
N, H = symbol("N"), symbol("H")
RNG = np.random.default_rng(0)


def product() -> Module:
    """``relu(x @ weight)`` of open rows."""
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, N, 4))])
    weight = b.const(np.arange(12, dtype=np.float32).reshape(4, 3))
    weight.name = "layer.weight"
    b.sources = ("the product",)
    h = b(MatMul(), x, weight)
    h.name = "hidden"
    b.sources = ("the product",)
    b.graph.set_outputs([b(Relu(), h)], ["y"])
    return module


def test_names_sizes_and_metadata_are_kept() -> None:
    module = product()
    module.metadata["alphabet"] = "abc"
    model = write_model(module, metadata={"by": "us"}, version="1.2").with_weights()
    onnx.checker.check_model(model, full_check=True)
    assert [(n.op_type, n.name, list(n.input), list(n.output)) for n in model.graph.node] == [
        ("MatMul", "the product", ["x", "layer.weight"], ["hidden"]),
        ("Relu", "the product_1", ["hidden"], ["y"]),
    ]
    assert [t.name for t in model.graph.initializer] == ["layer.weight"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"
    assert {p.key: p.value for p in model.metadata_props} == {"alphabet": "abc", "by": "us"}
    assert (model.producer_name, model.producer_version) == ("graphwright", "1.2")
    assert model.opset_import[0].version == OPSET


def test_bytes_are_a_function_of_the_module() -> None:
    first, second = (
        write_model(product()).with_weights().SerializeToString(deterministic=True) for _ in range(2)
    )
    assert first == second


def test_one_error_lists_all_nodes_without_an_onnx_form() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 4))])
    b.sources = ("first",)
    y = b(Erfc(), x)
    b.sources = ("second",)
    b.graph.set_outputs([b(Relu(), b(Expm1(), y))], ["y"])
    with pytest.raises(ModelError) as caught:
        write_model(module)
    assert [(d.code, d.where) for d in caught.value.diagnostics] == [
        ("export", "first"),
        ("export", "second"),
    ]
    assert "Erfc cannot be written" in str(caught.value)


@pytest.mark.parametrize(("n", "h"), [(1, 1), (2, 3), (5, 8), (7, 2), (3, 0)])
def test_dynamic_sizes_are_computed_from_shapes(n: int, h: int) -> None:
    """Sums, products, quotients, remainders and maxima of sizes are the operands of Reshape and Expand."""
    module = Module()
    b, (x, z) = new_main_graph(module, [("x", tensor(F32, N, H, 6)), ("z", tensor(F32, 1))])
    flat = b(Reshape((N * H, 2, 3), allow_zero=True), x)
    dims = [N + 2 * H + 1, floordiv(N * 3, 2), mod(N + H, 4), maximum(N, H)]
    outputs = [flat, *(b(Expand((dim, 1)), b(Reshape((1, 1)), z)) for dim in dims)]
    b.graph.set_outputs(outputs, [f"y{k}" for k in range(len(outputs))])
    feeds = {"x": RNG.normal(size=(n, h, 6)).astype(np.float32), "z": np.ones(1, np.float32)}
    given = session(write_model(module).with_weights()).run(None, feeds)
    np.testing.assert_array_equal(given[0], feeds["x"].reshape(n * h, 2, 3))
    assert [y.shape[0] for y in given[1:]] == [n + 2 * h + 1, n * 3 // 2, (n + h) % 4, max(n, h)]


def test_an_output_that_is_an_input_or_a_constant_keeps_its_name() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 2))])
    y = b(Relu(), x)
    b.graph.set_outputs([y, x, y, b.const(np.ones(3, np.float32))], ["first", "same", "again", "fixed"])
    model = write_model(module).with_weights()
    onnx.checker.check_model(model, full_check=True)
    given = session(model)
    assert [o.name for o in given.get_outputs()] == ["first", "same", "again", "fixed"]
    feed = np.array([-1, 2], np.float32)
    first, same, again, fixed = given.run(None, {"x": feed})
    np.testing.assert_array_equal(first, [0, 2])
    np.testing.assert_array_equal(same, feed)
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(fixed, [1, 1, 1])


def test_weights_can_be_in_a_separate_file(tmp_path: Path) -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, N, 64))])
    weights = [RNG.normal(size=(64, 64)).astype(np.float32) for _ in range(2)]
    y = b(MatMul(), b(MatMul(), x, b.const(weights[0])), b.const(weights[1]))
    b.graph.set_outputs([y], ["y"])
    files = save_model(write_model(module), tmp_path / "m.onnx", external=True)
    assert [file.name for file in files] == ["m.onnx", "m.onnx.data"]
    assert files[0].stat().st_size < 2000
    feed = RNG.normal(size=(3, 64)).astype(np.float32)
    (given,) = session(str(files[0])).run(None, {"x": feed})
    np.testing.assert_allclose(given, feed @ weights[0] @ weights[1], rtol=1e-4, atol=1e-4)


def test_small_weights_are_not_in_a_separate_file(tmp_path: Path) -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 3))])
    b.graph.set_outputs([b(Add(), x, b.const(np.float32([1, 2, 3])))], ["y"])
    assert save_model(write_model(module), tmp_path / "m.onnx", external=True) == [tmp_path / "m.onnx"]
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]
    (given,) = session(str(tmp_path / "m.onnx")).run(None, {"x": np.float32([1, 1, 1])})
    np.testing.assert_array_equal(given, [2, 3, 4])


def test_a_file_is_the_model_with_its_weights(tmp_path: Path) -> None:
    """The file is written in pieces; small dtypes, strings and scalars are among the weights."""
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, 2))])
    arrays = [
        RNG.normal(size=(3, 70)).astype(np.float32), np.array(["a", "bc"], object), np.array(7),
        np.zeros((0, 4)),
        np.array([1, -2, 3], DTYPES["i4"].numpy), np.array([1.5], np.float16), np.arange(12).reshape(3, 4).T,
    ]  # fmt: skip
    b.graph.set_outputs([b(Relu(), x), *map(b.const, arrays)], [f"y{k}" for k in range(len(arrays) + 1)])
    made = write_model(module)
    (path,) = save_model(made, tmp_path / "m.onnx")
    read, whole = onnx.load(path), made.with_weights()
    assert read == whole
    assert len(path.read_bytes()) == whole.ByteSize()
    for tensor_, array in zip(read.graph.initializer, arrays, strict=True):
        given = onnx.numpy_helper.to_array(tensor_)
        np.testing.assert_array_equal(given.astype(array.dtype), array)


def test_nothing_is_left_if_writing_fails(tmp_path: Path) -> None:
    model = write_model(product())
    model.weights["layer.weight"] = np.array(["2020"], "M8[D]")  # type: ignore[index]
    with pytest.raises(TypeError):
        save_model(model, tmp_path / "m.onnx", external=True)
    assert list(tmp_path.iterdir()) == []


def control_flow() -> onnx.ModelProto:
    """A loop that doubles x until its sum exceeds a limit and collects the sums, then an If."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n] x, int64 trips, bool flag) => (float[n] y, float[k] sums, float[n] z) {
        true_ = Constant <value = bool {1}> ()
        limit = Constant <value = float {100.0}> ()
        two = Constant <value = float {2.0}> ()
        y, sums = Loop (trips, true_, x) <
            body = b (int64 i, bool c, float[n] v) => (bool go, float[n] w, float s) {
            w = Mul (v, two)
            s = ReduceSum <keepdims = 0> (w)
            go = Less (s, limit)
        }>
        z = If (flag) <
            then_branch = then () => (float[n] a) { a = Add (x, y) },
            else_branch = otherwise () => (float[n] b) { b = Identity (x) }>
    }"""
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("trips", [0, 1, 3, 50])
@pytest.mark.parametrize("flag", [True, False])
def test_control_flow_is_written(trips: int, flag: bool) -> None:
    source = control_flow()
    model = write_model(load(source)).with_weights()
    onnx.checker.check_model(model, full_check=True)
    feeds = {"x": np.array([1, 2, 3], np.float32), "trips": np.array(trips), "flag": np.array(flag)}
    for given, wanted in zip(session(model).run(None, feeds), session(source).run(None, feeds), strict=True):
        np.testing.assert_array_equal(given, wanted)


def test_a_value_may_have_any_name() -> None:
    mark = "\x1b[31m../..\\x\"'\u202e"
    nodes = [helper.make_node("Relu", [f"x{mark}"], [f"y{mark}"], name=f"n{mark}")]
    infos = [helper.make_tensor_value_info(f"{v}{mark}", TensorProto.FLOAT, [2]) for v in "xy"]
    weight = numpy_helper.from_array(np.ones(2, np.float32), f"w{mark}")
    source = helper.make_model(
        helper.make_graph(nodes, "g", infos[:1], infos[1:], [weight]), ir_version=9,
        opset_imports=[helper.make_opsetid("", 17)],
    )  # fmt: skip
    model = write_model(load(source)).with_weights()
    assert [model.graph.input[0].name, model.graph.output[0].name] == [f"x{mark}", f"y{mark}"]
    assert model.graph.node[0].name == f"n{mark}"


def test_loops_without_carried_values_are_exported() -> None:
    """ONNX then requires a condition, which is always true here."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x) => (float[k, 2] rows)
    <int64 trips = {3}> {
        rows = Loop (trips, ) <
            body = b (int64 i, bool c) => (bool go, float[2] row) {
            go = Identity (c)
            number = Cast <to = 1> (i)
            row = Add (x, number)
        }>
    }"""
    source = onnx.parser.parse_model(text)
    source.graph.node[0].input.extend([""])
    model = write_model(load(source)).with_weights()
    onnx.checker.check_model(model, full_check=True)
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(session(model).run(None, {"x": x})[0], x + np.arange(3)[:, None])


def test_a_state_is_an_input_and_its_next_value_an_output() -> None:
    b = gw.GraphBuilder()
    x, total = b.input("x", np.float32, (2,)), b.state("total", np.float32, (2,))
    added = b.add(total, x)
    b.update(total, added)
    b.output("y", b.neg(added))
    model = write_model(b.build()).with_weights()
    onnx.checker.check_model(model, full_check=True)
    feeds = {name: np.array([1, 2], np.float32) for name in ("x", "total")}
    found = dict(zip([o.name for o in model.graph.output], session(model).run(None, feeds), strict=True))
    np.testing.assert_array_equal(found["y"], [-2, -4])
    np.testing.assert_array_equal(found["next total"], [2, 4])
