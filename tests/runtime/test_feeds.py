"""What may be fed and where outputs may go: right, or one error that says what the model takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from tests.package.models import Classifier, onnx_model

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def doubler(options: Options) -> gw.Model:
    """y = x + x over any matrix."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    spec = (TensorProto.FLOAT, ["N", "M"])
    return gw.compile(onnx_model([node], {"x": spec}, {"y": spec}), options=options)


class Named(np.ndarray):  # type: ignore[type-arg]
    """A subclass, as libraries make them."""


BASE = np.arange(24, dtype=np.float32).reshape(4, 6)
FORMS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda a: a,
    "transposed twice": lambda a: a.T.copy().T,
    "fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "big-endian": lambda a: a.astype(">f4"),
    "a subclass": lambda a: a.view(Named),
    "unaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), np.float32, offset=1).reshape(a.shape),
    "rows": lambda a: a[1:3],
    "no rows": lambda a: a[:0],
    "no columns": lambda a: a[:, :0],
    "one element": lambda a: a[:1, :1],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("writeable", [True, False])
def test_every_form_of_array_is_read_right(
    doubler: gw.Model, form: Callable[[Array], Array], writeable: bool
) -> None:
    x = form(BASE)
    before = np.array(x)
    if not writeable and x.flags.owndata:
        x.flags.writeable = False
    (y,) = doubler(x)
    assert type(y) is np.ndarray and y.dtype == np.float32
    assert np.array_equal(y, before.astype(np.float32) * 2)
    assert np.array_equal(x, before)


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i8", "f2", "f4", "f8", ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_every_type_of_element_goes_in_and_out(dtype: Any, shape: tuple[int, ...], options: Options) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    kind = {
        "bool": "BOOL",
        "bfloat16": "BFLOAT16",
        "float16": "FLOAT16",
        "float32": "FLOAT",
        "float64": "DOUBLE",
    }
    element = getattr(TensorProto, kind.get(array.dtype.name, array.dtype.name.upper()))
    node = helper.make_node(
        "Concat" if shape else "Identity",
        ["x"] * (2 if shape else 1),
        ["y"],
        **({"axis": 0} if shape else {}),
    )
    out_shape = [2 * shape[0], *shape[1:]] if shape else []
    model = gw.compile(
        onnx_model([node], {"x": (element, [*shape])}, {"y": (element, out_shape)}), options=options
    )
    (y,) = model(array)
    expected = np.concatenate([array, array]) if shape else array
    assert y.dtype == array.dtype and y.shape == expected.shape and y.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "feeds",
    [
        {},
        {"z": BASE},
        {"x": BASE, "z": BASE},
        {"x": BASE[0]},
        {"x": BASE[None]},
        {"x": BASE.astype(np.float64)},
        {"x": BASE.astype(np.int32)},
        {"x": BASE.astype(np.complex64)},
        {"x": BASE.astype(object)},
        {"x": BASE.astype(str)},
        {"x": None},
        {"x": 3.0},
        {"x": [[1.0]]},
        {"x": [[1.0], [1.0, 2.0]]},
        {"x": "text"},
        [BASE],
        BASE,
        None,
    ],
)
def test_feeds_that_do_not_fit(doubler: gw.Model, feeds: Any) -> None:
    with pytest.raises(gw.FeedError, match=r"the inputs are x: f32\[N, M\]"):
        doubler.run(feeds)


def test_too_few_and_too_many_arrays(doubler: gw.Model) -> None:
    for arrays in ((), (BASE, BASE)):
        with pytest.raises(gw.FeedError, match="for 1 inputs"):
            doubler(*arrays)


def test_sizes_that_do_not_fit_name_the_input(model: gw.Model) -> None:
    for shape in [(2, 4, 12, 12), (2, 3, 11, 12), (2, 3, 12)]:
        with pytest.raises(gw.FeedError, match=r"input 'x'[^$]*the inputs are x: f32\[N, 3, 12, 12\]"):
            model(np.zeros(shape, np.float32))


def test_bits_are_not_taken_for_another_type(options: Options) -> None:
    """bfloat16 travels as uint16 inside; an array of uint16 is none."""
    node = helper.make_node("Identity", ["x"], ["y"])
    spec = (TensorProto.BFLOAT16, [3])
    bf16 = gw.compile(onnx_model([node], {"x": spec}, {"y": spec}), options=options)
    with pytest.raises(gw.FeedError, match="takes bf16, not uint16"):
        bf16(np.zeros(3, np.uint16))


class TestOut:
    def test_is_written_and_returned(self, model: gw.Model, classifier: Classifier) -> None:
        y = np.full((2, 5), np.nan, np.float32)
        results = model.run({"x": classifier.x}, out={"y": y})
        assert results["y"] is y
        assert np.array_equal(y, model(classifier.x)[0])

    def test_may_be_a_part_of_a_larger_array(self, doubler: gw.Model) -> None:
        y = np.zeros((6, 6), np.float32)
        doubler.run({"x": BASE}, out={"y": y[1:5]})
        assert np.array_equal(y[1:5], BASE * 2) and not y[0].any() and not y[5].any()

    @pytest.mark.parametrize(
        "y",
        [
            np.zeros((4, 6), np.float64),
            np.zeros((4, 6), np.int32),
            np.zeros((4, 12), np.float32)[:, ::2],
            np.zeros((6, 4), np.float32).T,
            np.broadcast_to(np.float32(0), (4, 6)),
            np.zeros((6, 4), np.float32),
            np.zeros(24, np.float32),
            np.zeros((1, 4, 6), np.float32),
            np.zeros((5, 6), np.float32),
            np.zeros((3, 6), np.float32),
            [[0.0]],
        ],
    )
    def test_that_does_not_fit(self, doubler: gw.Model, y: Any) -> None:
        with pytest.raises(gw.FeedError, match="y"):
            doubler.run({"x": BASE}, out={"y": y})

    def test_of_an_unknown_name(self, doubler: gw.Model) -> None:
        with pytest.raises(gw.FeedError, match="no output 'z'"):
            doubler.run({"x": BASE}, out={"z": BASE.copy()})
        with pytest.raises(gw.FeedError, match="no output 'z'"):
            doubler.run({"x": BASE}, ["z"])

    def test_overlapping_an_input_or_another_output(self, options: Options) -> None:
        nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["z"])]
        spec = (TensorProto.FLOAT, ["N"])
        model = gw.compile(onnx_model(nodes, {"x": spec}, {"y": spec, "z": spec}), options=options)
        memory = np.ones(30, np.float32)
        x = memory[:10]
        for out in ({"y": x}, {"z": memory[9:19]}, {"y": memory[10:20], "z": memory[19:29]}):
            with pytest.raises(gw.FeedError, match="overlaps"):
                model.run({"x": x}, out=out)
        assert (memory == 1).all()
        results = model.run({"x": x}, out={"y": memory[10:20], "z": memory[20:]})
        assert (results["y"] == -1).all() and (memory[10:20] == -1).all() and (memory[20:] == 1).all()
