"""``onnxruntime`` for the processes that a script starts: this folder is in their PYTHONPATH."""

import sys

import graphwright.onnxruntime

sys.modules[__name__] = graphwright.onnxruntime
