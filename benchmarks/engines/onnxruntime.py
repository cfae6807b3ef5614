"""ONNX Runtime's CPU provider, on an ONNX file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

Array = np.ndarray[Any, Any]
ERRORS_ONLY = 3


def start(model: Path, threads: int) -> Callable[[Mapping[str, Array]], list[Array]]:
    """Load ``model``; the function runs it on ``threads`` threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = ERRORS_ONLY
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, dict(feeds)))
