"""The results of models on their references, and their comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime

from tests.runtime.host_program.models import Feed

Array = np.ndarray[Any, Any]


def expected(model: bytes, feed: Feed) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feed))


def assert_same(got: Sequence[Array], wanted: Sequence[Array], where: str) -> None:
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype, where
        if mine.dtype == object:
            assert mine.tolist() == theirs.tolist(), where
        else:
            tolerance = 1e-6 * max(10, np.abs(theirs).max(initial=0))
            np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=tolerance, err_msg=where)
