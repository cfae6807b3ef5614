"""Ops of the ONNX domain ai.onnx.ml: trees, linear models, support vector machines, encoders."""
