"""ONNX Runtime's module ``transformers.onnx_model``, which graphwright lacks: importing it raises an error
that says so.
"""

from graphwright.onnxruntime.refused import missing_part

raise missing_part("transformers.onnx_model")
