"""Import of ONNX Runtime's own ops, of the domain com.microsoft."""
