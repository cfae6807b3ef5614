"""The weights of the light models affect the results: results change with the input and with the order of
elements in it.
"""

from __future__ import annotations

import onnx
import pytest
from onnx import numpy_helper

import graphwright as gw
from benchmarks.models import MODELS
from tests.models.support import CLOSE, QUICK, answers, assert_close, distance, file_of, marked, session

LIGHT = [name for name in MODELS if name.startswith("light_")]
ORDERS = [
    "light_squeezenet",
    *(pytest.param(name, marks=pytest.mark.models) for name in ("light_shufflenet", "light_resnet50")),
]
VISIBLE = 2 * CLOSE
"""A change of an answer that the comparison with a peer would not let pass."""
assert len(LIGHT) == 9 and any(name in QUICK for name in LIGHT)


@pytest.mark.parametrize("name", [marked(name) for name in LIGHT])
def test_results_depend_on_the_input_and_on_its_channels(name: str) -> None:
    path, zoo = file_of(name), MODELS[name]
    model, peer, feeds = gw.compile(path), session(path), zoo.feeds()
    (data,) = feeds
    (before,) = model.run(feeds).values()
    for array in (zoo.feeds(seed=1)[data], feeds[data][:, ::-1].copy(), feeds[data][..., ::-1].copy()):
        found = model.run({data: array})
        assert_close(found, answers(peer, {data: array}), path, {data: array})
        assert distance(*found.values(), before) > VISIBLE


@pytest.mark.parametrize(
    "name", [marked(name) for name in ("light_squeezenet", "light_shufflenet", "light_resnet50")]
)
def test_answers_follow_the_order_of_weights(name: str) -> None:
    feeds = MODELS[name].feeds()
    (before,) = gw.compile(file_of(name)).run(feeds).values()
    original = onnx.load(file_of(name))
    conv = next(n for n in original.graph.node if n.op_type == "Conv")
    tensor = next(t for t in original.graph.initializer if t.name == conv.input[1])
    weights = numpy_helper.to_array(tensor)
    for changed in (weights[::-1], weights[:, ::-1], weights[..., ::-1], weights[..., ::-1, :]):
        tensor.CopyFrom(numpy_helper.from_array(changed.copy(), tensor.name))
        data = original.SerializeToString()
        (found,) = gw.compile(data).run(feeds).values()
        (expected,) = session(data).run(None, feeds)
        assert distance(found, expected) <= CLOSE
        assert distance(found, before) > VISIBLE
