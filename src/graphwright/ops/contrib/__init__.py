"""com.microsoft: ops that ONNX Runtime leaves in the models that it optimises."""
