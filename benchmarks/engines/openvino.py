"""OpenVINO's CPU plugin in f32, on an ONNX file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino

Array = np.ndarray[Any, Any]


def start(model: Path, threads: int) -> Callable[[Mapping[str, Array]], list[Array]]:
    """Load ``model``; the function runs it on ``threads`` threads, one request at a time."""
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    return lambda feeds: [np.array(value) for value in compiled(dict(feeds)).to_tuple()]
