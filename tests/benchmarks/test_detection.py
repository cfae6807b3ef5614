"""The models of the detection benchmark: results equal those of ONNX Runtime, and no node runs in Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

import graphwright as gw
from benchmarks.detection import Case, distinct, head, kept, model_of, places, resized, suppression

SMALL: dict[str, Callable[[], Case]] = {
    "suppression": lambda: suppression(3, 300, 20, 0.45, 0.25, 1),
    "suppression of all": lambda: suppression(2, 100, 100, 0.3, 0.0, 1),
    "head": lambda: head(5, 400),
    "places": lambda: places(0.01),
    "kept": lambda: kept(0.3),
    "distinct": lambda: distinct(500),
    "resized": lambda: resized("linear", [600, 333]),
}


@pytest.mark.parametrize("name", SMALL)
def test_results_are_onnx_runtimes(name: str) -> None:
    case = SMALL[name]()
    proto, feeds = model_of(case), dict(case[2])
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    model = gw.compile(proto)
    wanted = session.run(None, feeds)
    got = model.run(feeds)
    assert [array.shape for array in got.values()] == [array.shape for array in wanted]
    for mine, theirs in zip(got.values(), wanted, strict=True):
        if mine.dtype.kind == "f":
            np.testing.assert_allclose(mine, theirs, atol=1e-4)  # it places pixels in f32
        else:
            np.testing.assert_array_equal(mine, theirs)
    assert model.stats()["host_calls"] == 0
