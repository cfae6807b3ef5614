"""A library of custom operators for ONNX Runtime, one for each part of a model that one program can run."""
