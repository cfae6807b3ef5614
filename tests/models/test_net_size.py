"""The light vgg19 in the onnx package: 9 KB that represent 575 MB of constant weights."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import graphwright as gw
from benchmarks.models.light import DATA
from graphwright.config import Options

from .support import distance

pytestmark = pytest.mark.models
LIGHT = DATA / "light_vgg19.onnx"
SMALL = 200_000
"""Bytes of the package: kernels, tasks and graph take most of them."""
NO_SLOWER = 1.15
"""Times that a run may take of one of the model with stored weights: noise of a busy machine."""


@pytest.fixture(scope="module")
def feeds() -> dict[str, Any]:
    return {"data_0": np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)}


def test_the_file_stays_small_and_the_run_as_fast_as_with_stored_weights(
    feeds: dict[str, Any], tmp_path: Path
) -> None:
    options = Options(threads=1)
    gw.compile(str(LIGHT), options=options).save(tmp_path / "small.om")
    stored = gw.compile(_with_stored_weights().SerializeToString(), options=options)
    small = gw.load(tmp_path / "small.om", options=options)
    size, held = (tmp_path / "small.om").stat().st_size, small.package.weights.data.nbytes
    ratio = min(_seconds(small, feeds) / _seconds(stored, feeds) for _ in range(3))
    print(f"\nmodel {LIGHT.stat().st_size} bytes, package {size}, in memory {held}")
    print(f"run {ratio:.3f} of that with stored weights")
    assert size < SMALL and held > 500e6
    assert ratio < NO_SLOWER


def test_results_equal_those_of_onnx_runtime(feeds: dict[str, Any]) -> None:
    (found,) = gw.compile(str(LIGHT)).run(feeds).values()
    (expected,) = onnxruntime.InferenceSession(LIGHT).run(None, feeds)
    assert distance(found, expected) < 1e-4


def _with_stored_weights() -> onnx.ModelProto:
    """Every ConstantOfShape as an initializer."""
    model = onnx.load(LIGHT)
    shapes = {t.name: tuple(numpy_helper.to_array(t)) for t in model.graph.initializer}
    for node in [n for n in model.graph.node if n.op_type == "ConstantOfShape"]:
        array = np.full(shapes[node.input[0]], numpy_helper.to_array(node.attribute[0].t)[0], np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
        model.graph.node.remove(node)
    return model


def _seconds(model: gw.Model, feeds: dict[str, Any]) -> float:
    """The thread's time of the fastest of a few runs."""
    times = []
    for _ in range(4):
        start = time.thread_time()
        model.run(feeds)
        times.append(time.thread_time() - start)
    return min(times)
