"""Sessions of ONNX Runtime with a library of operators."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort

from graphwright.autofusion.autofuse import Autofused


def with_library(
    model: Autofused | Path, library: Path, threads: int = 1, profile: str = ""
) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    options.register_custom_ops_library(str(library))
    content = str(model) if isinstance(model, Path) else model.model.with_weights().SerializeToString()
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
