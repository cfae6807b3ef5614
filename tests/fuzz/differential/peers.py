"""Runs a model elsewhere: by ONNX Runtime, and where that has no kernel by onnx's reference evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

Run = Callable[[Mapping[str, Any]], list[Any]]


class Unsupported(Exception):
    """The peer has no kernel for a node: it says nothing of the model."""


def session(model: onnx.ModelProto, optimised: bool = True) -> Run:
    """ONNX Runtime on one thread; other exceptions than :class:`Unsupported` refuse the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, 1, 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        made = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:
        text = str(error)
        if (
            "NOT_IMPLEMENTED" in text
            or "NotImplemented" in type(error).__name__
            or "under development" in text
        ):
            raise Unsupported(text) from error
        raise
    return lambda feeds: list(made.run(None, dict(feeds)))


def reference(model: onnx.ModelProto) -> Run:
    """onnx's reference evaluator."""
    made = ReferenceEvaluator(model)

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [_plain(v) for v in made.run(None, dict(feeds))]

    return run


def _plain(value: Any) -> Any:
    return value if isinstance(value, list) or value is None else np.asarray(value)
