"""Writes modules as models of ONNX."""

from graphwright.export.onnx.schemas import OPSET
from graphwright.export.onnx.writer import OnnxModel, write_model

__all__ = ["OPSET", "OnnxModel", "write_model"]
