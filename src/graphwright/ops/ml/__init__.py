"""ai.onnx.ml: trees, linear models, encoders."""
