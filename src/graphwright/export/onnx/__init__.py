"""Writes modules as ONNX models."""

from graphwright.export.onnx.functions import FUNCTION_DOMAIN, FusedFunction, fused_functions
from graphwright.export.onnx.model import OnnxModel
from graphwright.export.onnx.save import save_model
from graphwright.export.onnx.schemas import OPSET
from graphwright.export.onnx.writer import write_model

__all__ = [
    "FUNCTION_DOMAIN",
    "OPSET",
    "FusedFunction",
    "OnnxModel",
    "fused_functions",
    "save_model",
    "write_model",
]
