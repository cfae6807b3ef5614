"""ONNX's backend interface by module, as ``onnx.backend.test.BackendTest`` takes it.

Its modules may be imported a second time, as ``onnxruntime.backend``, and so define nothing.
"""

from graphwright.onnxruntime.onnx_backend import OnnxRuntimeBackend

is_compatible = OnnxRuntimeBackend.is_compatible
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
run_model = OnnxRuntimeBackend.run_model
run_node = OnnxRuntimeBackend.run_node
supports_device = OnnxRuntimeBackend.supports_device
