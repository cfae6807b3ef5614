"""Modules built by hand: results, and errors for wrong calls."""

from __future__ import annotations

import copy
import functools
import inspect
import keyword
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
import graphwright.plugins as gp
from graphwright.builder.calls import op_classes
from graphwright.errors import FeedError, ModelError
from graphwright.ir.text import print_module
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.split import Split
from graphwright.ops.nn.softmax import Softmax
from tests.plugins.support import isolated


def test_a_layer_in_a_few_lines() -> None:
    generator = np.random.default_rng(0)
    weights, bias = (generator.standard_normal(shape, np.float32) for shape in ((8, 5), (5,)))
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 8))
    logits = b(Add(), b(MatMul(), x, weights), bias, name="logits")
    b.output("y", b(Softmax(axis=-1), b(Mul(), logits, 0.5)))
    model = b.compile()
    for rows in (1, 3, 17):
        fed = generator.standard_normal((rows, 8), np.float32)
        wide = 0.5 * (fed.astype(np.float64) @ weights + bias)
        wanted = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)
        np.testing.assert_allclose(model.run({"x": fed})["y"], wanted, rtol=1e-5)


def test_constants_are_copied() -> None:
    scale = np.ones(3, np.float32)
    b = gw.GraphBuilder()
    b.output("y", b(Mul(), b.input("x", "f32", (3,)), scale))
    scale[:] = 7
    assert b.compile().run({"x": np.full(3, 2, np.float32)})["y"].tolist() == [2, 2, 2]


def test_several_outputs_and_equal_sizes() -> None:
    b = gw.GraphBuilder()
    x, y = b.input("x", "f32", ("N", 4)), b.input("y", "f32", ("N", 4))
    left, right = b(Split(2, axis=1, sizes=(1, 3)), b(Add(), x, y))
    b.output("left", left)
    b.output("right", right)
    model = b.compile()
    ones = np.ones((2, 4), np.float32)
    assert {n: a.shape for n, a in model.run({"x": ones, "y": ones}).items()} == {
        "left": (2, 1),
        "right": (2, 3),
    }
    with pytest.raises(FeedError):
        model.run({"x": ones, "y": np.ones((3, 4), np.float32)})


def test_invalid_calls_of_the_builder_are_rejected() -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 4))
    with pytest.raises(ModelError, match="already taken"):
        b.input("x", "f32", (1,))
    with pytest.raises(ModelError, match="there is no dtype 'float'"):
        b.input("y", "float", (1,))
    with pytest.raises(ModelError):
        b.input("z", "f32", ("N +",))
    with pytest.raises(ModelError):
        b(MatMul(), x, np.ones((5, 2), np.float32))
    with pytest.raises(ModelError, match=r"the dtype of 1\.0 is not known"):
        b(Add(), 1.0, 2.0)
    with pytest.raises(ModelError, match="no outputs"):
        b.compile()
    b.output("y", x)
    with pytest.raises(ModelError, match="already taken"):
        b.output("y", x)


# -- ops by name ------------------------------------------------------------------------------------------


def test_a_layer_by_names_of_ops() -> None:
    generator = np.random.default_rng(1)
    weights = generator.standard_normal((8, 5), np.float32)
    for spelling in ("matmul", "mat_mul", "MatMul"):
        b = gw.GraphBuilder()
        x = b.input("x", np.float32, ("N", 8))
        b.output("y", b.softmax(getattr(b, spelling)(x, weights, name="logits"), axis=-1))
        fed = generator.standard_normal((3, 8), np.float32)
        wide = fed.astype(np.float64) @ weights
        wanted = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)
        np.testing.assert_allclose(b.compile()(fed)[0], wanted, rtol=1e-5)


def test_ops_are_listed_and_described() -> None:
    b = gw.GraphBuilder()
    listed = set(dir(b))
    assert {"matmul", "conv", "layer_normalization", "reduce_sum", "lstm", "not_", "qlinear_conv"} <= listed
    assert {"if_", "loop", "input", "output", "compile"} <= listed
    assert {"constant_", "fused", "fail", "front", "trans_data", "scan", "case"}.isdisjoint(listed)
    assert str(inspect.signature(b.clip)) == "(x, low_=None, high_=None, /, *, low=None, high=None)"
    assert str(inspect.signature(b.add)) == "(a, b, /)"
    assert "cross-correlation" in str(b.conv.__doc__)
    for name in method_names():
        assert callable(getattr(b, name))


def test_an_op_that_is_defined_again_is_the_one_that_is_called() -> None:
    with isolated():
        for slope in (2.0, 3.0):  # as a cell of a notebook that runs twice
            leak(slope)
            b = gw.GraphBuilder()
            b.output("y", b.leak(b.input("x", "f32", (2,))))
            (y,) = b.compile()(np.ones(2, np.float32))
            np.testing.assert_array_equal(y, slope)


def leak(slope: float) -> None:
    @gp.op("Leak")
    class Leak(gp.Pointwise):
        def reference(self, x: gp.Array) -> gp.Array:
            return np.asarray(x * np.float32(slope))

        def expression(self, x: gp.Scalar) -> gp.Scalar:
            return x * slope

        onnx = gp.FromNode("Leak", 1, "test")


def method_names() -> list[str]:
    return list(op_classes())


def test_method_names_of_ops_are_unique() -> None:
    plain = [name.replace("_", "") for name in op_classes()]
    assert len(set(plain)) == len(plain)
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in op_classes())


def test_attributes_are_converted_from_usual_python_types() -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 4))
    b.output("sum", b.reduce_sum(x, axes=[np.int64(1)], keepdims=False))
    b.output("half", b.cast(x, to=np.float16))
    b.output("rows", b.reshape(x, shape=["2*N", 2]))
    b.output("part", b.slice(x, starts=(1,), ends=np.array([3]), axes=range(1, 2), steps=(1,)))
    fed = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = b.compile().run({"x": fed})
    np.testing.assert_array_equal(found["sum"], fed.sum(1))
    np.testing.assert_array_equal(found["half"], fed.astype(np.float16))
    np.testing.assert_array_equal(found["rows"], fed.reshape(6, 2))
    np.testing.assert_array_equal(found["part"], fed[:, 1:3])


X = np.arange(12, dtype=np.float32).reshape(4, 3)
POSITIVE = X > 3
LITERALS: list[tuple[Callable[[Any, Any], Any], Any]] = [
    (lambda b, x: b.gather(x, [2, -1], axis=1), X[:, [2, -1]]),
    (lambda b, x: b.gather(x, 1), X[1]),
    (lambda b, x: b.gather_elements(x, [[0, 2, 1]]), np.take_along_axis(X, np.array([[0, 2, 1]]), 0)),
    (lambda b, x: b.scatter_nd(x, [[1]], [[7, 8, 9.5]]), np.vstack([X[:1], [[7, 8, 9.5]], X[2:]])),
    (lambda b, x: b.reshape(x, [2, 6]), X.reshape(2, 6)),
    (lambda b, x: b.reshape(x, (2, -1)), X.reshape(2, 6)),
    (lambda b, x: b.slice(x, [1], [3]), X[1:3]),
    (lambda b, x: b.pad(x, [0, 1, 0, 0], 2), np.pad(X, ((0, 0), (1, 0)), constant_values=2)),
    (lambda b, x: b.reduce_sum(x, [0], keepdims=False), X.sum(0)),
    (lambda b, x: b.compress(x, [True, False, True], axis=1), X[:, [0, 2]]),
    (lambda b, x: b.where(b.greater(x, 3), x, 0), np.where(POSITIVE, X, 0)),
    (lambda b, x: b.where(b.greater(x, 3), 0.5, x), np.where(POSITIVE, 0.5, X)),
    (lambda b, x: b.dequantize_linear(b.cast(x, to="u8"), 0.5), X * 0.5),
    (lambda b, x: b.mul(x, np.sqrt(0.25)), X * 0.5),
    (lambda b, x: b.mul(b.cast(x, to="f64"), np.sqrt(0.25)), X.astype(np.float64) * 0.5),
    (lambda b, x: b.add(x, [1, 2, 3]), X + np.float32([1, 2, 3])),
    (lambda b, x: b.matmul(x, ((1,), (2,), (3,))), X @ np.float32([[1], [2], [3]])),
]  # fmt: skip


@pytest.mark.parametrize(("call", "wanted"), LITERALS, ids=range(len(LITERALS)))
def test_numbers_and_lists_have_the_dtype_that_the_op_needs(
    call: Callable[[Any, Any], Any], wanted: np.ndarray[Any, Any]
) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", (4, 3))
    b.output("y", call(b, x))
    (got,) = b.compile()(X)
    np.testing.assert_array_equal(got, wanted)


def line() -> int:
    """The line of its caller."""
    return inspect.currentframe().f_back.f_lineno  # type: ignore[union-attr]  # a frame has one behind it


FAULTS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda b, x: b.matmul(x, np.ones((5, 2), np.float32)), r"in MatMul\(x: f32\[N, 4\], f32\[5, 2\]\)"),
    (lambda b, x: b(MatMul(), x, np.ones((5, 2), np.float32)), "4 and 5 differ"),
    (lambda b, x: b.matmul(x), "MatMul takes the operands a, b, but this call gives 1"),
    (lambda b, x: b.relu(x, x), "Relu takes the operands x, but this call gives 2"),
    (lambda b, x: b.matmul(x, None), "MatMul needs its operand b"),
    (lambda b, x: b.softmax(x, axi=1), r"no attribute 'axi'(.|\n)*did you mean 'axis'"),
    (lambda b, x: b.split(x, axis=1), "Split needs the attribute parts"),
    (lambda b, x: b.cast(x, to="flt"), "attribute to is 'flt'"),
    (lambda b, x: b.softmax(x, axis="last"), "attribute axis is 'last', not int"),
    (lambda b, x: b.reduce_sum(x, axes=1), r"attribute axes is 1, not tuple(.|\n)*as in axes=\(1, ...\)"),
    (lambda b, x: b.leaky_relu(x, alpha="0.1"), "attribute alpha is '0.1', not float"),
    (lambda b, x: b.top_k(x, k=1.5), "attribute k is 1.5, not Dim"),
    (lambda b, x: b.reduce_sum(x, keepdims="no"), "attribute keepdims is 'no', not bool"),
    (lambda b, x: b.add(x, "a"), "an operand cannot be a str"),
    (lambda b, x: b.add(x, b.split(x, parts=2, axis=1)), "give one value of the tuple"),
    (lambda b, x: b.add(x, 1e300), "elements outside the range of f32"),
    (lambda b, x: b.cast(b.add(b.cast(x, to="i64"), 0.5), to="f32"), "elements that i64 cannot represent"),
    (lambda b, x: b.reshape(b.constant(np.ones(4)), [3, 5]), "4 and 15 differ"),
    (lambda b, x: b.add(x, [1, 2, 3]), "4 and 3"),
    (lambda b, x: b.gather_elements(x, [0, 1]), "data of rank 2, indices of rank 1: the ranks must be equal"),
    (lambda b, x: b.concat([x, x], axis=0), "an operand cannot be a list"),
    (lambda b, x: b(MatMul, x, x), "MatMul is not an op"),
    (lambda b, x: b.add(1, 2), "the dtype of 1 is not known"),
    (lambda b, x: b.add(x, gw.GraphBuilder().input("z", "f32", (4,))), "belongs to another builder"),
    (lambda b, x: b.input("y", "float", (1,)), "there is no dtype 'float'"),
    (lambda b, x: b.input("y", "f32", "N"), "its shape is 'N', not a tuple"),
    (lambda b, x: b.input("y", "f32", (None,)), r"its shape is \(None,\): None is not a size"),
    (lambda b, x: b.input("y", "f32", (gw.Dim("N", 1, 8),)), r"is not a size(.|\n)*compile takes ranges"),
    (lambda b, x: b.input("y", "f32", (-1,)), "-1 is less than 0"),
    (lambda b, x: b.input(3, "f32", (1,)), "a name must be a str, not int"),
    (lambda b, x: b.output("y", (x, x)), "tuple is not a value of the main graph"),
    (lambda b, x: b.if_(x, lambda: x, lambda: x), r"the condition is f32\[N, 4\]; it must be a bool"),
    (lambda b, x: b.if_(b.constant(np.array(True)), lambda: x, lambda: (x, x)), "then returns 1 values"),
    (lambda b, x: b.if_(b.constant(np.array(True)), x, lambda: x), "then is Value, not a function"),
    (lambda b, x: b.if_(b.constant(np.array(True)), lambda: None, lambda: x), "then returns None"),
    (lambda b, x: b.loop(lambda i, t: t, x), "it has neither trips nor condition"),
    (lambda b, x: b.loop(lambda i, t: (), x, trips=2), "body returns 0 values for 1 loop-carried values"),
    (lambda b, x: b.loop(lambda i, t: b.cast(t, to="f64"), x, trips=2), "is f32, but f64 after an iteration"),
    (lambda b, x: b.loop(lambda i, t: t, x, condition=lambda t: t), r"is f32\[N, 4\], not a single"),
    (lambda b, x: b.loop(lambda i, t: t, x, trips=np.zeros(3, np.int64)), r"trips is i64\[3\], not a single"),
    (lambda b, x: b.loop(lambda i, t: t, x, condition=3), "condition is int, not a function"),
    (lambda b, x: b.loop(lambda i, t: t, x, condition=lambda t: (t, t)), "condition returns 2 values"),
    (lambda b, x: b.loop(lambda i, t: b.matmul(t, np.ones((3, 3), np.float32)), x, trips=2), "4 and 3"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), FAULTS, ids=range(len(FAULTS)))
def test_faults_name_the_line_of_the_call(call: Callable[[Any, Any], Any], message: str) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 4))
    with pytest.raises(ModelError, match=message) as caught:
        call(b, x)
    where = f"{__file__}:{call.__code__.co_firstlineno}"
    assert [d.where.partition(": ")[0] for d in caught.value.diagnostics] == [where]
    b.output("y", b.relu(x))  # the builder goes on
    assert b.compile()(np.ones((2, 4), np.float32))[0].shape == (2, 4)


def test_a_named_node_is_named_in_its_faults() -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", (4,))
    with pytest.raises(ModelError) as caught:
        at = line() + 1
        b.add(x, np.ones(3, np.float32), name="the sum")
    assert caught.value.diagnostics[0].where == f"{__file__}:{at}: the sum"


def test_ops_that_are_not_there_are_suggested() -> None:
    b = gw.GraphBuilder()
    with pytest.raises(AttributeError, match=r"there is no op 'sofmax'\. Did you mean: 'softmax'"):
        b.sofmax  # noqa: B018
    assert not hasattr(b, "_repr_html_") and not hasattr(b, "fused")
    assert copy.copy(b) is not b


# -- branches and loops -----------------------------------------------------------------------------------

OPEN = [(0, 4), (1, 4), (3, 4), (17, 4)]


@pytest.mark.parametrize("shape", OPEN)
def test_a_branch_reads_outer_values(shape: tuple[int, int]) -> None:
    model = _branched()
    x = np.random.default_rng(shape[0]).standard_normal(shape, np.float32)
    for flag in (True, False):
        low, high = model({"x": x, "flag": flag})
        np.testing.assert_allclose(low, np.maximum(x + 1, 0) if flag else -x, rtol=1e-6)
        np.testing.assert_array_equal(high, x if flag else np.full_like(x, 2))


@functools.cache
def _branched() -> gw.Model:
    b = gw.GraphBuilder()
    x, flag = b.input("x", "f32", ("N", 4)), b.input("flag", "bool", ())
    ones = b.constant(np.ones(4, np.float32))
    more = b.add(x, ones)
    low, high = b.if_(
        flag,
        lambda: (b.relu(more), x),
        lambda: (b.neg(x), b.add(b.mul(x, 0.0), 2.0)),
    )
    b.output("low", low)
    b.output("high", high)
    return b.compile()


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_loop_carries_and_stacks(trips: int) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 3))
    last, seen, steps = b.loop(lambda step, t: (b.add(t, x), t, step), b.mul(x, 0.5), trips=trips)
    for name, value in (("last", last), ("seen", seen), ("steps", steps)):
        b.output(name, value)
    fed = np.random.default_rng(0).standard_normal((4, 3), np.float32)
    found = b.compile().run({"x": fed})
    states = [fed * 0.5]
    for _ in range(trips):
        states.append(states[-1] + fed)
    np.testing.assert_allclose(found["last"], states[-1], rtol=1e-6)
    assert found["seen"].shape[0] == trips and found["steps"].tolist() == list(range(trips))
    if trips:
        np.testing.assert_allclose(found["seen"], states[:-1], rtol=1e-6)


def test_a_loop_ends_by_its_condition_or_its_count() -> None:
    b = gw.GraphBuilder()
    limit, most = b.input("limit", "f32", (1, 1)), b.input("most", "i64", (1,))
    start = np.float32(1)
    total = b.loop(
        lambda step, t: b.mul(t, 2.0),
        start,
        trips=most,
        condition=lambda t: b.less(t, limit),
        name="doubling",
    )
    b.output("total", total)
    model = b.compile()
    for bound, count in [(100, 50), (100, 3), (0, 9), (5, 0)]:
        wanted, runs = 1.0, 0
        while wanted < bound and runs < count:
            wanted, runs = wanted * 2, runs + 1
        assert model([[bound]], [count])[0] == wanted


def test_a_loop_may_change_sizes() -> None:
    b = gw.GraphBuilder()
    x, count = b.input("x", "f32", ("N", 2)), b.input("count", "i64", ())
    b.output("y", b.loop(lambda step, t: b.concat(t, x, axis=0), x, trips=count))
    model = b.compile()
    fed = np.arange(6, dtype=np.float32).reshape(3, 2)
    for runs in (0, 1, 3):
        np.testing.assert_array_equal(model(fed, np.int64(runs))[0], np.concatenate([fed] * (runs + 1)))


def test_branches_inside_of_loops_read_what_is_around_both(tmp_path: Path) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N",))
    twice = b.add(x, x)

    def run(step: Any, total: Any) -> Any:
        odd = b.equal(b.mod(step, 2), 1)
        return b.if_(odd, lambda: b.sub(total, x), lambda: b.add(total, twice))

    b.output("y", b.loop(run, b.mul(x, 0.0), trips=5))
    with pytest.raises(ModelError, match="belongs to another builder, or to a body that has ended"):
        kept: list[Any] = []
        b.loop(lambda step, t: kept.append(t) or t, x, trips=2)  # type: ignore[func-returns-value]  # append gives None
        b.relu(kept[0])
    model = b.compile()
    fed = np.float32([1, 2, 3])
    model.save(tmp_path / "loop.om")
    for each in (model, gw.load(tmp_path / "loop.om")):
        np.testing.assert_allclose(each(fed)[0], 2 * 3 * fed - 2 * fed, rtol=1e-6)


def test_a_builder_can_be_extended_after_compiling() -> None:
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 3))
    y = b.matmul(x, weights)
    b.output("y", y)
    before = print_module(b.build())
    given = np.array([[1, 2, 3]], np.float32)
    for options in ({}, {"device": "reference"}, {}):
        np.testing.assert_array_equal(b.compile(options)(given)[0], given @ weights)
        np.testing.assert_array_equal(gw.compile(b.build(), shapes={"x": (1, 3)})(given)[0], given @ weights)
    assert print_module(b.build()) == before
    b.output("z", b.neg(y))
    np.testing.assert_array_equal(b.compile()(given)[1], -(given @ weights))
