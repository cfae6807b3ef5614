"""What a model keeps of the arguments and the result of a PyTorch module."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.ir.pytree import (
    METADATA,
    Constant,
    Fields,
    Forward,
    Items,
    Number,
    Tensor,
    Tree,
    built,
    forward_from,
)

TREE = Items(
    (
        Tensor("a"),
        Fields((("k", Items((Tensor("b"), Constant(None)), is_tuple=False)), (3, Number("n")))),
        Fields((("x", Constant(1.5)),), "Point"),
    ),
    is_tuple=True,
)


def test_trees_are_restored_from_json() -> None:
    forward = Forward((("x", TREE), ("y", Tensor("y"))), 1, TREE)
    assert forward_from({METADATA: forward.to_json()}) == forward
    made = built(TREE, {"a": 1, "b": 2, "n": np.int64(3)}.__getitem__)
    assert made == (1, {"k": [2, None], 3: 3}, {"x": 1.5})


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "[1,2,3]", "null", "[[[1]],0,{}]", "[[],0,[]]", '[[],0,{"tuple":3}]', '[[],"x",{}]',
        '[[],0,{"constant":[1]}]', '[[],0,{"dict":[[1,{"tensor":"a"}]]}]', '[[],0,{"other":1}]',
        "[" * 100_000, '[[],0,{"tensor":"not there"}]', '[[["x",{"tensor":"other"}]],1,{"tensor":"y"}]',
    ],
)  # fmt: skip
def test_an_invalid_description_is_ignored(text: str) -> None:
    assert called({METADATA: text}, np.ones(2, np.float32)) == (2.0,)


def called(metadata: dict[str, str], *arguments: Any) -> Any:
    b = gw.GraphBuilder()
    b.output("y", b.reduce_sum(b.input("x", "f32", (2,)), axes=(0,), keepdims=False))
    module = b.build()
    module.metadata.update(metadata)
    return gw.compile(module)(*arguments)


def test_a_model_is_called_as_its_forward_says() -> None:
    result: Tree = Fields((("total", Tensor("y")), ("more", Constant("text"))))
    argument = Fields((("x", Tensor("x")),))
    metadata = {METADATA: Forward((("given", argument), ("flag", Constant(True))), 1, result).to_json()}
    expected = {"total": 2.0, "more": "text"}
    assert called(metadata, {"x": np.ones(2, np.float32)}) == expected
    assert json.loads(metadata[METADATA])[1] == 1
    with pytest.raises(gw.FeedError, match=r"(?s)given.x is missing.*given=\{x: array\}"):
        called(metadata, {})
    with pytest.raises(gw.FeedError, match="at most 1"):
        called(metadata, {"x": np.ones(2, np.float32)}, "one too many")
