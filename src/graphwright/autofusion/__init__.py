"""Fused models for other engines: ONNX in, ONNX out."""
