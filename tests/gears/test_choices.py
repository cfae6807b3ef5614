"""Which gears there are, and what cannot be some: one error that names each fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright import ops
from graphwright.frontends.onnx import load
from graphwright.gears import row_text

from .models import FLOAT, INT64, cnn, encoder, images, node, onnx_model, plain

ops.load()
SHAPES = [(1, 3, 8, 8), (2, 3, 8, 8)]


def rows(model: bytes, gears: gw.Gears) -> list[str]:
    return [row_text(row) for row in gears.rows(load(model).main)]


def refusal(model: bytes, **choice: Any) -> str:
    shapes = choice.pop("model_shapes", None)
    with pytest.raises(gw.GraphwrightError) as caught:
        gw.compile(model, shapes=shapes, gears=gw.Gears(**choice))
    return str(caught.value)


def test_shapes_of_one_input() -> None:
    assert rows(cnn(), gw.Gears({"x": SHAPES})) == ["x:1,3,8,8", "x:2,3,8,8"]


def test_sizes_may_be_numpys() -> None:
    shapes = [np.array(shape) for shape in SHAPES]
    assert rows(cnn(), gw.Gears({"x": shapes})) == ["x:1,3,8,8", "x:2,3,8,8"]  # type: ignore[dict-item]  # shapes as lists


def test_sizes_beyond_any_memory_are_rejected() -> None:
    text = refusal(cnn(), shapes={"x": [(1, 3, 8, 8), (2**61, 3, 8, 8)]})
    assert "gear 1" in text and "gear 0" not in text
    assert "gear 1" in refusal(cnn(), shapes={"x": [(1, 3, 8, 8), (2**80, 3, 8, 8)]})


def test_shapes_of_several_inputs_go_together_or_each_with_each() -> None:
    shapes = {"ids": [(1, 8), (2, 16)], "mask": [(1, 8), (2, 16)]}
    assert rows(encoder(), gw.Gears(shapes)) == ["ids:1,8 mask:1,8", "ids:2,16 mask:2,16"]
    assert rows(encoder(), gw.Gears(shapes, combine="product")) == [
        "ids:1,8 mask:1,8",
        "ids:1,8 mask:2,16",
        "ids:2,16 mask:1,8",
        "ids:2,16 mask:2,16",
    ]


def test_batches_are_of_all_inputs_with_an_open_first_axis() -> None:
    assert rows(encoder(), gw.Gears(batch=(1, 4))) == ["ids:1,? mask:1,?", "ids:4,? mask:4,?"]


def test_images_have_their_open_axes_last_or_in_the_middle() -> None:
    sizes = [(8, 16), (32, 24)]
    assert rows(cnn(), gw.Gears(image=sizes)) == ["x:?,?,8,16", "x:?,?,32,24"]
    middle = plain("Relu", ["N", "H", "W", 3])
    assert rows(middle, gw.Gears(image=sizes)) == ["x:?,8,16,?", "x:?,32,24,?"]
    assert rows(plain("Relu", ["N", 3, 8, "W"]), gw.Gears(image=[(8, 1), (8, 2)]))[1] == "x:?,?,8,2"


def test_batches_and_images_go_each_with_each() -> None:
    found = rows(cnn(), gw.Gears(batch=(1, 2), image=[(8, 8), (16, 16)]))
    assert found == ["x:1,?,8,8", "x:1,?,16,16", "x:2,?,8,8", "x:2,?,16,16"]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"shapes": {"z": SHAPES}}, ("no input 'z'", "the inputs are x")),
        ({"shapes": {"x": []}}, ("'x' has no gear",)),
        ({"shapes": {"x": [(1, 3, 8, 8)]}}, ("gears is 1,", "2 to 100")),
        ({"batch": range(1, 102), "image": [(8, 8)]}, ("gears is 101,", "2 to 100")),
        ({"batch": range(1, 60), "image": [(8, 8), (9, 9)]}, ("gears is 118,",)),
        ({}, ("gears is 0,",)),
        ({"shapes": {"x": [(1, 3, 8, 8), (1, 3, 8)]}}, ("'x' have different ranks: 3 and 4",)),
        ({"shapes": {"x": [(1, 3), (2, 3)]}}, ("'x' have rank 2, but its rank is 4",)),
        ({"shapes": {"x": [(0, 3, 8, 8), (-2, 3, 8, 8)]}}, ("0 in 0,3,8,8 is not a size", "-2 in -2,3,8,8")),
        ({"shapes": {"x": [(1, 3, 8, 8.5), (1, 3, 8, True)]}}, ("8.5 in", "True in")),
        ({"shapes": {"x": [*SHAPES, (1, 3, 8, 8)]}}, ("gears 0 and 2 are the same: x:1,3,8,8",)),
        ({"shapes": {"x": [(1, 3, 8, 8), (1, 4, 8, 8)]}}, ("gear 1 (x:1,4,8,8)", "axis 1", "'x'", "3")),
        ({"shapes": {"x": [1, 2]}}, ("are [1, 2], not a list of shapes",)),
        ({"shapes": {"x": 5}}, ("are 5, not a list of shapes",)),
        ({"shapes": {"x": ["1388", "2388"]}}, ("'1' in",)),
        ({"batch": (1, 2)}, ("gear 0 (x:1,?,?,?)", "leaves a size of input", "dynamic")),
        ({"batch": (0, 1), "image": [(8, 8)]}, ("0 is not a batch size",)),
        ({"batch": (1, 2), "image": [(8, -8)]}, ("(8, -8) is not a height and width",)),
        ({"shapes": {"x": SHAPES}, "batch": (1, 2)}, ("axis 0 of input 'x' is given twice",)),
        ({"shapes": {"x": SHAPES}, "between": "sideways"}, ("between='sideways' is not one of error, pad",)),
        ({"shapes": {"x": SHAPES}, "combine": "all"}, ("combine='all' is not one of zip, product",)),
    ],
)
def test_invalid_gears_are_rejected_with_the_reason(choice: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(gw.OptionError) as caught:
        gw.compile(cnn(), gears=gw.Gears(**choice))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_inputs_that_go_together_must_have_as_many_shapes() -> None:
    text = refusal(encoder(), shapes={"ids": [(1, 8), (2, 8)], "mask": [(1, 8)]})
    assert "2 of 'ids', 1 of 'mask'" in text and "product" in text


def test_sizes_that_share_a_name_must_agree() -> None:
    text = refusal(encoder(), shapes={"ids": [(1, 8), (2, 8)], "mask": [(1, 8), (3, 8)]})
    assert "gear 1 (ids:2,8 mask:3,8)" in text and "N" in text


def test_batch_and_image_gears_need_dynamic_axes() -> None:
    fixed = plain("Relu", [2, 3])
    assert "no input has a dynamic first axis" in refusal(fixed, batch=(1, 2))
    assert "no input of rank 4" in refusal(fixed, image=[(1, 2), (2, 3)])


def test_sizes_outside_of_the_ranges_of_the_model_are_rejected() -> None:
    text = refusal(cnn(), batch=(1, 9), image=[(8, 8)], model_shapes={"x": [gw.Dim("N", 1, 4), 3, "H", "W"]})
    assert "gear 1 (x:9,?,8,8)" in text and "9" in text and "4" in text
    assert "gear 0" not in text


def test_a_gear_that_the_graph_rejects_is_named_with_its_node() -> None:
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["p", "half"], ["y"], name="beside", axis=1),
    ]
    info = {"x": (FLOAT, [1, 1, "H", "W"]), "half": (FLOAT, [1, 1, "h", "w"])}
    model = onnx_model(nodes, info, {"y": (FLOAT, None)})
    shapes = {"x": [(1, 1, 8, 8), (1, 1, 12, 8)], "half": [(1, 1, 4, 4), (1, 1, 5, 4)]}
    with pytest.raises(gw.ModelError) as caught:
        gw.compile(model, gears=shapes)
    text = str(caught.value)
    assert "beside" in text and "gear 1 (x:1,1,12,8 half:1,1,5,4)" in text and "gear 0" not in text


@pytest.mark.parametrize("between", ["error", "pad", "dynamic"])
def test_inputs_of_unknown_rank_are_of_that_of_their_gears(between: str) -> None:
    model = onnx_model([node("Neg", ["x"], ["y"])], {"x": (FLOAT, None)}, {"y": (FLOAT, None)})  # type: ignore[dict-item]  # no rank
    gears = gw.Gears({"x": [(2, 3), (4, 3)]}, between=between)
    compiled = gw.compile(model, gears=gears, options=gw.CompileOptions(device="reference"))
    assert len(compiled.inputs[0].shape or ()) == 2
    rows = (2, 4) if between == "error" else (2, 3, 4)
    for count in rows:
        assert compiled(images(count, 3))[0].tolist() == (-images(count, 3)).tolist()


def test_a_model_of_unknown_rank_takes_ranks_from_its_gears() -> None:
    model = onnx_model([node("Relu", ["x"], ["y"])], {"x": (INT64, None)}, {"y": (INT64, None)})  # type: ignore[dict-item]  # no rank
    assert rows(model, gw.Gears({"x": [(2, 3), (4, 3)]})) == ["x:2,3", "x:4,3"]
