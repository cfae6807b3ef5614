"""The modules of ``onnxruntime.capi`` that scripts import.

They may be imported a second time, as ``onnxruntime.capi``, and so define nothing: all classes come from the
modules of ``graphwright.onnxruntime``, and are the same under both names.
"""

from graphwright.onnxruntime.capi import (
    _pybind_state as _pybind_state,
)
from graphwright.onnxruntime.capi import (
    onnxruntime_inference_collection as onnxruntime_inference_collection,
)
from graphwright.onnxruntime.capi import (
    onnxruntime_pybind11_state as onnxruntime_pybind11_state,
)
