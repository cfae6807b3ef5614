"""Random inputs of ONNX models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx


def random_feeds(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    """An f32 array for each input of ``model``, whose shape is static; the same in every process."""
    random = np.random.default_rng(1)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
