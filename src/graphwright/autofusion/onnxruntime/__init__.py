"""A library of custom operators for ONNX Runtime, one for each fused region that one kernel computes."""
