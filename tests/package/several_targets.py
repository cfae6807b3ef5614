"""Models that are compiled for several targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.onnx_models import onnx_model
from tests.package.models import Array, Classifier, rank_by_size


def convolutions() -> bytes:
    """Filters that Winograd transforms, others in blocks, a product, integers."""
    random = np.random.default_rng(11)
    node = helper.make_node
    return onnx_model(
        [
            node("Conv", ["x", "wide"], ["a"], pads=[1, 1, 1, 1]),
            node("Conv", ["a", "point"], ["b"]),
            node("Gather", ["b", "order"], ["c"], axis=3),
            node("MatMul", ["c", "dense"], ["d"]),
            node("Sigmoid", ["d"], ["y"]),
        ],
        {"x": (TensorProto.FLOAT, [1, 64, 16, 16])},
        {"y": (TensorProto.FLOAT, [1, 32, 16, 50])},
        {
            "wide": random.standard_normal((64, 64, 3, 3)).astype(np.float32),
            "point": random.standard_normal((32, 64, 1, 1)).astype(np.float32),
            "order": random.permutation(16),
            "dense": random.standard_normal((16, 50)).astype(np.float32),
        },
    )


def feed(*shape: int) -> Array:
    return np.random.default_rng(13).standard_normal(shape).astype(np.float32)


MODELS: dict[str, tuple[bytes, dict[str, Any], list[Mapping[str, Array]]]] = {
    "classifier": (Classifier().onnx(), {}, [{"x": Classifier().x}, {"x": Classifier().x[:1]}]),
    "convolutions": (convolutions(), {}, [{"x": feed(1, 64, 16, 16)}]),
    "gears": (
        Classifier().onnx(),
        {"gears": {"x": [(1, 3, 12, 12), (2, 3, 12, 12)]}},
        [{"x": Classifier().x}, {"x": Classifier().x[:1]}],
    ),
    "a rank known at a run": (rank_by_size(), {}, [{"x": feed(1, 3)}, {"x": feed(2, 3)}]),
}
