"""Not here: says so when it is imported."""

from graphwright.onnxruntime.refused import missing_part

raise missing_part("transformers.onnx_model")
