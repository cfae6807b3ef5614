"""A model that reads rows of a large table."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.onnx_models import onnx_model

ROWS = np.array([9, 0, 3])


def lookup() -> bytes:
    node = helper.make_node
    return onnx_model(
        [node("Gather", ["x", "rows"], ["g"]), node("Exp", ["g"], ["y"])],
        {"x": (TensorProto.FLOAT, ["N", 4])},
        {"y": (TensorProto.FLOAT, None)},
        {"rows": ROWS},
    )
