"""ONNX's own tests: every node case of the installed onnx package, and the models in its wheel."""
