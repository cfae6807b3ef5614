"""The module in which ONNX Runtime defines its backend."""

from graphwright.onnxruntime.onnx_backend import OnnxRuntimeBackend as OnnxRuntimeBackend
