"""The results of ONNX Runtime, or of ONNX's reference implementation if ONNX Runtime has no kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

ort.set_default_logger_severity(4)


def session(model: onnx.ModelProto | str) -> ort.InferenceSession:
    """A session of one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    source = model if isinstance(model, str) else model.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run_by_a_peer(model: onnx.ModelProto, feeds: dict[str, Any]) -> Sequence[Any] | None:
    """The outputs; None where no peer runs the model on these dtypes."""
    for run in (lambda: session(model).run(None, feeds), lambda: ReferenceEvaluator(model).run(None, feeds)):
        try:
            return run()
        except Exception:  # peers raise whatever their libraries do
            continue
    return None
