"""Not supported: importing it raises an error with the reason."""

from graphwright.onnxruntime.refused import missing_part

raise missing_part("quantization")
