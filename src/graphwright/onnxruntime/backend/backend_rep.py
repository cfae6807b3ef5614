"""The module in which ONNX Runtime defines what its backend prepares."""

from graphwright.onnxruntime.onnx_backend import OnnxRuntimeBackendRep as OnnxRuntimeBackendRep
