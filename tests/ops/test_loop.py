"""Loop and Scan: types of loop-carried values after widening, and results compared with ONNX Runtime and
NumPy.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from graphwright import ops
from graphwright.errors import ModelError
from graphwright.frontends.onnx import load
from graphwright.ir.symbols import Expr
from graphwright.ir.types import I64, tensor
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import run_passes
from graphwright.runtime.executor import RunError

from .loops import (
    GOES_ON,
    NUMBER,
    accumulating,
    body,
    by_us,
    compare,
    compiled,
    const,
    growing,
    info,
    model,
    node,
    normal,
    scanning,
    unsqueezing,
)


@pytest.mark.parametrize("trips", [1, 2, 7])
def test_a_counted_loop(trips: int) -> None:
    h, x = normal(2, 3), normal(2, 3)
    y, ys = compare(accumulating(trips, (2, 3)), {"h0": h, "x": x})
    np.testing.assert_allclose(y, h + trips * x, rtol=1e-5, atol=1e-5)
    assert ys.shape == (trips, 2, 3)


def test_a_loop_that_never_runs_gives_its_start_and_no_rows() -> None:
    h, x = normal(2, 3), normal(2, 3)
    y, ys = by_us(accumulating(0, (2, 3)), {"h0": h, "x": x})
    np.testing.assert_array_equal(y, h)
    assert ys.shape == (0, 2, 3)


@pytest.mark.parametrize("trips", [None, 3, 50])
def test_a_condition_ends_a_loop_early(trips: int | None) -> None:
    ones = np.ones((2, 1), np.float32)
    y, ys = compare(accumulating(trips, (2, 1), conditional=True), {"h0": ones * 0, "x": ones})
    runs = 3 if trips == 3 else 5
    np.testing.assert_array_equal(y, ones * runs)
    assert len(ys) == runs


def test_a_size_that_iterations_change_is_dynamic() -> None:
    made = compiled(growing())
    (output,) = made.outputs
    assert output.shape[1] == 3
    assert isinstance(output.shape[0], str)
    assert output.shape[0] != "N"
    h, x = normal(1, 3), normal(2, 3)
    (y,) = compare(growing(), {"T": np.array(4), "h0": h, "x": x})
    np.testing.assert_array_equal(y, np.concatenate([h, *[x] * 4]))


def test_sizes_that_iterations_keep_are_known_after_the_loop() -> None:
    made = compiled(accumulating(4, ("N", 3)))
    assert [list(o.shape) for o in made.outputs] == [["N", 3], [4, "N", 3]]


def test_a_rank_that_runs_change_is_unknown() -> None:
    made = compiled(unsqueezing())
    assert made.outputs[0].shape is None
    (y,) = by_us(unsqueezing(), {"T": np.array(3), "h0": normal(3)})
    assert y.shape == (1, 1, 1, 3)


def chain(length: int) -> Any:
    """Carried values of which each becomes the next one: a size ripples through them, one run at a
    time.
    """
    names = [f"h{k}" for k in range(length)]
    moved = [node("Identity", "on", "go"), node("Concat", "h0 h0", "g0", axis=0)]
    moved += [node("Identity", f"h{k - 1}", f"g{k}") for k in range(1, length)]
    inner = body(
        moved, [NUMBER, GOES_ON, *(info(n, (2,)) for n in names)], ["go", *(f"g{k}" for k in range(length))]
    )
    starts = " ".join(f"x{k}" for k in range(length))
    loop = node("Loop", f"T _ {starts}", " ".join(f"y{k}" for k in range(length)), body=inner)
    inputs = [info("T", (), np.int64), *(info(f"x{k}", (2,)) for k in range(length))]
    return model([loop], inputs, [f"y{length - 1}"])


def test_a_condition_may_be_computed_from_values_of_unknown_rank() -> None:
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        main (float[N] x, int64 n, bool c) => (float[M] y) {
            y = Loop(n, c, x) <body = one (int64 i, bool before, float[A] a) => (bool after, float[B] b) {
                b = Add(a, x)
                total = ReduceSum<keepdims = 0>(b)
                limit = Constant<value_float = 20.0>()
                after = Less(total, limit)
            }>
        }"""
    )
    source.graph.input[0].type.tensor_type.ClearField("shape")
    for trips in (0, 3, 100):
        feeds = {"x": np.array([1, 2], np.float32), "n": np.array(trips), "c": np.array(True)}
        compare(source, feeds)


def test_ranks_that_the_body_of_a_scan_declares_are_those_of_its_operands() -> None:
    """Two operands are computed from inputs of unknown rank."""
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        main (float[N, M] x, float[M] h) => (float[M] last, float[N, M] y) {
            rows = Neg(x)
            begin = Abs(h)
            last, y = Scan<
                num_scan_inputs = 1,
                body = one (float[A] u, float[B] row) => (float[C] a, float[D] b) {
                    a = Add(u, row)
                    b = Mul(u, row)
                }
            >(begin, rows)
        }"""
    )
    for value in source.graph.input:
        value.type.tensor_type.ClearField("shape")
    for rows in (1, 4):
        compare(source, {"x": normal(rows, 3), "h": normal(3)})


def test_a_loop_that_takes_many_rounds_settles() -> None:
    assert isinstance(compiled(chain(20)).outputs[0].shape[0], str)


def test_a_loop_whose_types_do_not_converge_is_one_error() -> None:
    with pytest.raises(ModelError, match="still change after 64 iterations") as caught:
        compiled(chain(100))
    assert len(caught.value.diagnostics) == 1


def test_inference_again_changes_nothing() -> None:
    for proto in (growing(), unsqueezing(), accumulating(3, ("N", 3), conditional=True)):
        module = imported(proto)
        run_passes(module, InferShapes())
        (record,) = run_passes(module, InferShapes())
        assert not record.modified


def test_attributes_follow_sizes_that_are_found_once_a_branch_is_dead() -> None:
    """The carried value has a size that changes, until the condition of the If inside is folded."""
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        main (float[2, 8] x, int64[2] ends, int64 n) => (float[A, B] y) {
            yes = Constant<value = bool {1}>()
            y = Loop(n, yes, x) <body = one (int64 i, bool c, float[P, Q] z) => (bool k, float[R, S] o) {
                k = Identity(c)
                zeros = Constant<value_ints = [0, 0]>()
                part = Slice(z, zeros, ends)
                left, right = Split<axis = 1>(part)
                both = Add(left, right)
                most = ReduceMax<keepdims = 0>(both)
                shape = Shape(z)
                spread = Expand(most, shape)
                sum = Add(z, spread)
                small = Constant<value = float {1.5}>()
                large = Exp(small)
                always = Greater(large, small)
                o = If(always) <
                    then_branch = a () => (float[E, F] u) { u = Identity(sum) },
                    else_branch = b () => (float[G, H] v) { v = Concat<axis = 0>(sum, sum) }
                >
            }>
        }"""
    )
    for end in (2, 6):
        feeds = {"x": normal(2, 8), "ends": np.array([1, end]), "n": np.array(3)}
        compare(source, feeds, "cpu")


def imported(proto: Any) -> Any:
    ops.load()
    return load(proto)


def test_a_loop_that_never_ends_is_rejected() -> None:
    inner = body(
        [node("Identity", "on", "go"), node("Neg", "h", "g")], [NUMBER, GOES_ON, info("h", (2,))], ["go", "g"]
    )
    loop = node("Loop", "_ _ x", "y", body=inner)
    with pytest.raises(ModelError, match="it would never end"):
        compiled(model([loop], [info("x", (2,))], ["y"]))


def test_carried_values_keep_their_dtype() -> None:
    cast = node("Cast", "h", "g", to=int(helper.np_dtype_to_tensor_dtype(np.dtype(np.int32))))
    inner = body([node("Identity", "on", "go"), cast], [NUMBER, GOES_ON, info("h", (2,))], ["go", "g"])
    loop = node("Loop", "T _ x", "y", body=inner)
    with pytest.raises(ModelError, match="carried value 0 is f32, but i32 after an iteration"):
        compiled(model([loop], [info("T", (), np.int64), info("x", (2,))], ["y"]))


def test_a_body_reads_outer_values_and_the_iteration_number() -> None:
    nodes = [
        node("Identity", "on", "go"),
        node("Cast", "i", "f", to=1),
        node("Mul", "f", "s"),
        node("Gather", "x i", "row", axis=0),
        node("Mul", "row w", "scaled"),
        node("Add", "scaled f", "z"),
        node("Add", "h z", "g"),
    ]
    del nodes[2]
    inner = body(nodes, [NUMBER, GOES_ON, info("h", (3,))], ["go", "g", "z"])
    loop = node("Loop", "T yes h0", "y ys", body=inner)
    inputs = [info("h0", (3,)), info("x", (5, 3))]
    constants = [const("T", 5, np.int64), const("yes", value=True, dtype=bool), const("w", [2.0, 3.0, 4.0])]
    h, x = normal(3), normal(5, 3)
    y, ys = compare(model([loop], inputs, ["y", "ys"], constants), {"h0": h, "x": x})
    rows = x * np.float32([2, 3, 4]) + np.arange(5, dtype=np.float32)[:, None]
    np.testing.assert_allclose(ys, rows, rtol=1e-6)
    np.testing.assert_allclose(y, h + rows.sum(0), rtol=1e-5)


def test_loops_run_inside_loops() -> None:
    inner = body(
        [node("Identity", "on2", "go2"), node("Add", "k x", "k2")],
        [info("j", (), np.int64), info("on2", (), bool), info("k", (2,))],
        ["go2", "k2"],
    )
    nodes = [node("Identity", "on", "go"), node("Loop", "i _ h", "g", body=inner)]
    outer = body(nodes, [NUMBER, GOES_ON, info("h", (2,))], ["go", "g", "g"])
    outer.output[2].name = "g3"
    outer.node.append(node("Identity", "g", "g3"))
    loop = node("Loop", "T _ h0", "y ys", body=outer)
    h, x = normal(2), normal(2)
    proto = model([loop], [info("h0", (2,)), info("x", (2,))], ["y", "ys"], [const("T", 5, np.int64)])
    y, ys = compare(proto, {"h0": h, "x": x})
    np.testing.assert_allclose(ys, [h + n * x for n in (0, 1, 3, 6, 10)], rtol=1e-5)
    np.testing.assert_array_equal(y, ys[-1])


@pytest.mark.parametrize("out", [(0, 0), (1, 0), (0, 1), (-1, 1)])
@pytest.mark.parametrize(
    ("axes", "flags"), [(None, None), ((0, 1), None), ((1, 0), (0, 1)), (None, (1, 0)), ((0, 0), (1, 1))]
)
def test_scan_axes_and_directions(axes: Any, flags: Any, out: tuple[int, int]) -> None:
    proto = scanning(axes, flags, *out)
    shapes = [tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in proto.graph.input]
    compare(proto, dict(zip(("s0", "x", "w"), (normal(*shape) for shape in shapes), strict=True)))


def test_a_scan_of_a_symbolic_length() -> None:
    made = compiled(scanning(length="T"))
    assert [list(o.shape) for o in made.outputs] == [[3], ["T", 3]]
    for length in (1, 3, 6):
        compare(scanning(length="T"), {"s0": normal(3), "x": normal(length, 3), "w": normal(length, 3)})


@pytest.mark.parametrize("lengths", [None, (2, 4, 1)])
@pytest.mark.parametrize("backward", [0, 1])
def test_scan_of_opset_8(lengths: Any, backward: int) -> None:
    nodes = [node("Add", "s a", "t"), node("Identity", "t", "u")]
    inner = body(nodes, [info("s", (2,)), info("a", (2,))], ["t", "u"])
    scan = node(
        "Scan",
        f"{'_' if lengths is None else 'n'} s0 x",
        "y ys",
        body=inner,
        num_scan_inputs=1,
        directions=[backward],
    )
    inputs = [info("s0", (3, 2)), info("x", (3, 4, 2))]
    constants = [] if lengths is None else [const("n", lengths, np.int64)]
    s, x = normal(3, 2), normal(3, 4, 2)
    y, ys = compare(model([scan], inputs, ["y", "ys"], constants, 8), {"s0": s, "x": x})
    assert (y.shape, ys.shape) == ((3, 2), (3, 4, 2))


def test_the_trip_count_becomes_an_attribute() -> None:
    module = imported(accumulating(4, (2, 3)))
    run_passes(module, InferShapes())
    (loop,) = (n for n in module.main if n.regions)
    assert (loop.op.trips, loop.op.counted) == (4, False)
    assert loop.regions[0].inputs[0].type == tensor(I64)
    assert not any(isinstance(d, Expr) for v in loop.outputs for d in v.type.dims)


def test_a_size_that_iterations_change_may_be_broadcast_in_the_first_one() -> None:
    """``h = h + x``: h has one element before the first run, and as many as x afterwards."""
    nodes = [node("Identity", "on", "go"), node("Add", "h x", "g")]
    inner = body(nodes, [NUMBER, GOES_ON, info("h", None)], ["go", "g"])
    loop = node("Loop", "T _ h0", "y", body=inner)
    proto = model([loop], [info("T", (), np.int64), info("h0", (1,)), info("x", ("N",))], ["y"])
    for device in ("reference", "cpu"):
        compare(proto, {"T": np.array(3), "h0": normal(1), "x": normal(4)}, device)


def changed(proto: Any, change: Any, inner: bool = True) -> Any:
    """The model with its loop's body, or its node, changed."""
    made = copy.deepcopy(proto)
    (loop,) = made.graph.node
    change(next(a.g for a in loop.attribute if a.name == "body") if inner else loop)
    return made


def with_attribute(name: str, value: Any) -> Any:
    def change(loop: Any) -> None:
        kept = [a for a in loop.attribute if a.name != name]
        del loop.attribute[:]
        loop.attribute.extend([*kept, helper.make_attribute(name, value)])

    return changed(scanning(), change, inner=False)


def renamed(*outputs: str) -> Any:
    """The counting loop, whose body gives these values."""

    def change(inner: Any) -> None:
        del inner.output[:]
        inner.output.extend([onnx.ValueInfoProto(name=name) for name in outputs])

    return changed(accumulating(3, (2, 3)), change)


BAD = {
    "no body": (
        changed(accumulating(3, (2,)), lambda n: n.ClearField("attribute"), inner=False),
        "'body' is missing",
    ),
    "a start too many": (
        changed(accumulating(3, (2,)), lambda n: n.input.append("x"), inner=False),
        "receives 4 inputs",
    ),
    "a body's input too many": (
        changed(accumulating(3, (2,)), lambda g: g.input.append(info("q", (2,)))),
        "receives 3 inputs, but declares 4",
    ),
    "results too few": (renamed("go"), "its body has 1 outputs for 1 loop-carried values"),
    "a condition that is none": (renamed("g", "g", "s"), "output 0 of its body is f32.2, 3."),
    "a trip count of floats": (accumulating(np.float32(3), (2,)), "cannot be f32"),  # type: ignore[arg-type]
    "no scan inputs": (with_attribute("num_scan_inputs", 0), "scans 0 of 3 inputs"),
    "too many scan inputs": (with_attribute("num_scan_inputs", 5), "scans 5 of 3 inputs"),
    "axes for others": (with_attribute("scan_input_axes", [0]), "has 1 elements; it must have 2"),
    "an axis that is none": (with_attribute("scan_input_axes", [0, 9]), "axis 9 is out of range for rank 2"),
    "a result's axis that is none": (
        with_attribute("scan_output_axes", [-3]),
        "axis -3 is out of range for rank 2",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_loops_are_one_clear_error(name: str) -> None:
    proto, message = BAD[name]
    with pytest.raises(ModelError, match=message) as caught:
        compiled(proto)
    assert len(caught.value.diagnostics) == 1


@pytest.mark.parametrize("number", [NUMBER, info("i", (1,), np.int64), onnx.ValueInfoProto(name="i")])
def test_the_iteration_number_may_be_declared_with_another_shape(number: Any) -> None:
    nodes = [node("Identity", "on", "go"), node("Cast", "i", "f", to=1), node("Add", "h f", "g")]
    inner = body(nodes, [number, onnx.ValueInfoProto(name="on"), onnx.ValueInfoProto(name="h")], ["go", "g"])
    loop = node("Loop", "T _ x", "y", body=inner)
    (y,) = by_us(
        model([loop], [info("x", (3,))], ["y"], [const("T", 4, np.int64)]), {"x": np.ones(3, np.float32)}
    )
    np.testing.assert_array_equal(y, np.full(3, 7, np.float32))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_iterations_that_scan_other_shapes_are_one_clear_error(device: str) -> None:
    nodes = [node("Identity", "on", "go"), node("Identity", "h", "g"), node("Range", "zero i one", "r")]
    constants = [const("zero", 0, np.int64), const("one", 1, np.int64)]
    inner = body(nodes, [NUMBER, GOES_ON, info("h", (2,))], ["go", "g", "g", "r"], constants)
    loop = node("Loop", "T _ h0", "y gs rs", body=inner)
    proto = model([loop], [info("T", (), np.int64), info("h0", (2,))], ["gs", "rs"])
    made, h = compiled(proto, device), np.ones(2, np.float32)
    gs, rs = made(np.array(1), h)
    np.testing.assert_array_equal(gs, [h])
    assert rs.shape == (1, 0)
    message = r"scan output 1 has shape \(0,\) in iteration 0, but \(1,\) in iteration 1"
    with pytest.raises(RunError, match=message) as caught:
        made(np.array(3), h)
    assert caught.value.diagnostics[0].where == "y"
