"""Ops with data-dependent result sizes, as programs with a bound size between them, compared with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.ir.inference.infer import evaluate
from graphwright.ir.op import Op
from graphwright.ops.core.binary import Add, Greater
from graphwright.ops.core.compress import Compress
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.gather_nd import GatherND
from graphwright.ops.core.non_zero import NonZero
from graphwright.ops.core.one_hot import OneHot
from graphwright.ops.core.range import Range
from graphwright.ops.core.roll import Roll
from graphwright.ops.core.top_k import TopK
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unique import Unique
from graphwright.ops.nn.non_max_suppression import NonMaxSuppression
from graphwright.ops.nn.resize import Resize
from graphwright.runtime.executor import RunError

Array = np.ndarray[Any, Any]
Input = tuple[str, Sequence[int | str]] | None
"""A dtype and a shape; None where an operand is absent."""


def compiled(op: Op, inputs: Sequence[Input]) -> gw.Model:
    """A model of one node."""
    b = gw.GraphBuilder()
    values = [None if i is None else b.input(f"x{k}", *i) for k, i in enumerate(inputs)]
    b.output("y", b(op, *values))
    return b.compile()


def check(op: Op, model: gw.Model, *arrays: Array | None) -> Array:
    """The one output, which is that of the reference; no node ran in Python."""
    (wanted,) = evaluate(op, arrays)
    (got,) = model(*(array for array in arrays if array is not None))
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    assert model.stats()["host_calls"] == 0
    if got.dtype.kind == "f":
        tolerance = 1e-3 if got.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, wanted)
    return np.asarray(got)


RESIZES = [
    Resize("nearest"),
    Resize("nearest", "asymmetric", "floor"),
    Resize("nearest", "tf_half_pixel_for_nn", "ceil"),
    Resize("linear"),
    Resize("linear", "align_corners"),
    Resize("linear", "half_pixel_symmetric"),
    Resize("linear", "pytorch_half_pixel", exclude_outside=True),
    Resize("cubic", cubic_a=-0.5),
    Resize("cubic", "asymmetric", exclude_outside=True),
]


@pytest.mark.parametrize("op", RESIZES, ids=lambda op: f"{op.mode}-{op.coordinates}")
def test_resize_by_scales_on_all_axes(op: Resize) -> None:
    """Axes grow, shrink, shrink to one element, or keep their size and their infinite elements."""
    model = compiled(op, [("f32", (2, "H", "W")), None, ("f32", (3,)), None])
    rng = np.random.default_rng(0)
    for size, scales in (((4, 6), (1, 2, 1.5)), ((5, 8), (1, 0.5, 0.13)), ((3, 3), (2, 1, 2.3))):
        x = rng.standard_normal((2, *size)).astype(np.float32)
        check(op, model, x, None, np.array(scales, np.float32), None)
    x[0, 1] = np.inf
    check(op, model, x, None, np.ones(3, np.float32), None)


@pytest.mark.parametrize(
    "op", [Resize("linear"), Resize("cubic"), Resize("nearest")], ids=lambda op: f"{op.mode}-{op.coordinates}"
)
@pytest.mark.parametrize("dtype", ["f32", "f16", "u8"])
def test_resize_to_sizes_equals_the_reference(op: Resize, dtype: str) -> None:
    model = compiled(op, [(dtype, (1, "C", "H", "W")), None, None, ("i64", (4,))])
    rng = np.random.default_rng(1)
    kind = {"f32": np.float32, "f16": np.float16, "u8": np.uint8}[dtype]
    for shape, sizes in (
        ((1, 2, 4, 6), (1, 2, 7, 3)),
        ((1, 3, 5, 5), (1, 3, 5, 10)),
        ((1, 1, 9, 2), (1, 1, 1, 1)),
    ):
        x = (100 + rng.random(shape) * 20).astype(kind)  # a cubic stays within 8 bits
        check(op, model, x, None, None, np.array(sizes))


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_resize_of_some_axes_equals_the_reference(policy: str) -> None:
    op = Resize("linear", axes=(-1, 1), policy=policy)
    model = compiled(op, [("f32", (2, "H", "W")), None, None, ("i64", (2,))])
    rng = np.random.default_rng(2)
    for size, wanted in (((4, 6), (9, 8)), ((6, 4), (3, 9)), ((5, 5), (5, 5))):
        check(op, model, rng.random((2, *size), np.float32), None, None, np.array(wanted))


def test_resizing_crops_equals_the_reference() -> None:
    op = Resize("linear", "tf_crop_and_resize", axes=(1, 2), extrapolation=7.0)
    rng = np.random.default_rng(3)
    by_sizes = compiled(op, [("f32", (2, "H", "W")), ("f32", (4,)), None, ("i64", (2,))])
    by_scales = compiled(op, [("f32", (2, "H", "W")), ("f32", (4,)), ("f32", (2,)), None])
    for roi in ((0.0, 0.2, 0.7, 1.0), (-0.3, 0.5, 1.2, 0.5)):
        x, region = rng.random((2, 6, 8), np.float32), np.array(roi, np.float32)
        check(op, by_sizes, x, region, None, np.array([3, 1]))
        check(op, by_sizes, x, region, None, np.array([5, 9]))
    check(op, by_scales, x, np.array((0.25, 0, 0.75, 1), np.float32), np.array((2, 1), np.float32), None)


def test_invalid_sizes_are_rejected() -> None:
    op = Resize("linear")
    model = compiled(op, [("f32", (1, 4)), None, None, ("i64", (2,))])
    with pytest.raises(RunError, match="resized_1 is -3, which is not a valid size"):
        model(np.ones((1, 4), np.float32), np.array([1, -3]))
    check(op, model, np.ones((1, 4), np.float32), None, None, np.array([1, 2]))
    assert model(np.ones((1, 4), np.float32), np.array([1, 0]))[0].shape == (1, 0)


def test_boxes_of_any_number_are_suppressed() -> None:
    """The number of boxes and the limit are known only in a run; one score is NaN."""
    op = NonMaxSuppression()
    inputs = [("f32", ("B", "S", 4)), ("f32", ("B", "K", "S")), ("i64", (1,)), ("f32", (1,)), ("f32", (1,))]
    model = compiled(op, inputs)
    rng = np.random.default_rng(4)
    for batch, classes, count, most in (
        (1, 1, 7, 3),
        (2, 3, 40, 100),
        (1, 2, 0, 5),
        (0, 1, 3, 5),
        (1, 80, 900, 4),
    ):
        boxes = rng.integers(0, 9, (batch, count, 4)).astype(np.float32)
        scores = np.round(rng.random((batch, classes, count)), 1).astype(np.float32)
        scores.reshape(-1)[:1] = np.nan
        for least in (-1.0, 0.35):
            limits = np.array([most]), np.array([0.4], np.float32), np.array([least], np.float32)
            check(op, model, boxes, scores, *limits)


@pytest.mark.parametrize("dtype", ["f32", "bool", "i64", "f16"])
def test_nonzero_of_any_shape(dtype: str) -> None:
    model = compiled(NonZero(), [(dtype, ("N", 3, "M"))])
    rng = np.random.default_rng(5)
    kind = {"f32": np.float32, "bool": np.bool_, "i64": np.int64, "f16": np.float16}[dtype]
    for rows, columns in ((4, 5), (1, 1), (0, 3), (300, 130)):
        check(NonZero(), model, rng.integers(0, 2, (rows, 3, columns)).astype(kind))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress_keeps_what_the_condition_selects(axis: int | None) -> None:
    op = Compress(axis)
    model = compiled(op, [("f32", ("N", 3, "M")), ("bool", ("L",))])
    rng = np.random.default_rng(6)
    for size, length in (((4, 3, 5), 3), ((2, 3, 2), 0), ((6, 3, 4), 2)):
        check(op, model, rng.random(size, np.float32), rng.random(length) < 0.6)


def test_counts_depths_ranges_and_shapes_may_be_elements() -> None:
    """The number of best elements, a depth, a range and a shape come from elements."""
    rng = np.random.default_rng(9)
    b = gw.GraphBuilder()
    x, many, shape = (
        b.input("x", "f32", ("N", 7)),
        b.input("many", "i64", (1,)),
        b.input("shape", "i64", (2,)),
    )
    bounds = [b.input(name, "f32", ()) for name in ("start", "limit", "step")]
    best, places = b(TopK(), x, many)
    for name, value in (
        ("best", best),
        ("places", places),
        ("marked", b(OneHot(), places, many, b.constant(np.array([0, 1], np.float32)))),
        ("filled", b(ConstantOfShape(3.0), shape)),
        ("range", b(Range(), *bounds)),
    ):
        b.output(name, value)
    model = b.compile()
    for rows, k, sizes, span in (
        (3, 4, (2, 5), (0, 5, 1)),
        (1, 7, (0, 3), (4, 1, -0.5)),
        (2, 1, (1, 1), (1, 1, 1)),
    ):
        array = rng.standard_normal((rows, 7)).astype(np.float32)
        best, places, marked, filled, steps = model(
            array, np.array([k]), np.array(sizes), *(np.array(v, np.float32) for v in span)
        )
        order = np.argsort(-array, 1, kind="stable")[:, :k]
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(best, np.take_along_axis(array, order, 1))
        np.testing.assert_array_equal(marked, order[..., None] == np.arange(k))
        np.testing.assert_array_equal(filled, np.full(sizes, 3.0))
        np.testing.assert_allclose(steps, np.arange(*span), rtol=1e-6)
    assert model.stats()["host_calls"] == 0
    scalars = [np.float32(1)] * 3
    with pytest.raises(RunError, match="is -1, which is not a valid size"):
        model(array, np.array([-1]), np.array([1, 1]), *scalars)
    with pytest.raises(gw.GraphwrightError):
        model(array, np.array([8]), np.array([1, 1]), *scalars)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("dtype", ["f32", "i64", "bool", "u8"])
def test_unique_elements_equal_the_reference(dtype: str, ordered: bool) -> None:
    op = Unique(None, ordered)
    b = gw.GraphBuilder()
    for name, value in zip("yfic", b(op, b.input("x", dtype, ("N", 3))), strict=True):
        b.output(name, value)
    model = b.compile()
    rng = np.random.default_rng(8)
    kind = {"f32": np.float32, "i64": np.int64, "bool": np.bool_, "u8": np.uint8}[dtype]
    for rows in (4, 0, 1, 300):
        x = rng.integers(0, 9, (rows, 3)).astype(kind)
        if dtype == "f32":
            specials = np.array([np.nan, -0.0, np.inf, -np.inf], np.float32)
            x = np.where(rng.random(x.shape) < 0.3, rng.choice(specials, x.shape), x)
        for mine, theirs in zip(model(x), evaluate(op, [x]), strict=True):
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype and mine.tobytes() == theirs.tobytes()
    assert model.stats()["host_calls"] == 0


def test_one_size_after_the_other() -> None:
    """Masks of masked elements: each size is known after the program before it has run."""
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 4))
    first = b(GatherND(), x, b(Transpose((1, 0)), b(NonZero(), b(Greater(), x, b.constant(np.float32(0))))))
    second = b(Compress(0), first, b(Greater(), first, b.constant(np.float32(0.5))))
    b.output("first", first)
    b.output("y", b(Add(), second, second))
    model = b.compile()
    rng = np.random.default_rng(7)
    for rows in (3, 0, 50, 3):
        array = rng.standard_normal((rows, 4)).astype(np.float32)
        positive, large = model(array)
        np.testing.assert_array_equal(positive, array[array > 0])
        np.testing.assert_array_equal(large, 2 * array[array > 0.5])
    assert model.stats()["host_calls"] == 0


@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_roll_of_a_dynamic_axis(dtype: str) -> None:
    model, roll = compiled(Roll(1, 2), [(dtype, ("M", "N", 3))]), Roll(1, 2)
    for shape in ((1, 2, 3), (2, 3, 3), (5, 7, 3), (0, 4, 3)):
        x = np.arange(np.prod(shape)).reshape(shape).astype({"f32": np.float32, "i8": np.int8}[dtype])
        np.testing.assert_array_equal(check(roll, model, x), np.roll(x, -2, 1))
    with pytest.raises(gw.GraphwrightError, match="N must be at least 2"):
        model(x[:, :1].copy())
