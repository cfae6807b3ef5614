"""Random small ONNX graphs, run by graphwright and by ONNX Runtime: ``python -m tests.fuzz.differential``."""
