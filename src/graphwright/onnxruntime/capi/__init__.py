"""The modules of ``onnxruntime.capi`` that scripts import.

They may be imported a second time, as ``onnxruntime.capi``, and so define nothing: all classes come from the
modules of ``graphwright.onnxruntime``, and are the same under both names. Modules that are not here, such as
``onnxruntime_validation``, are those of the installed package, if there is one.
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
from graphwright.onnxruntime.installed import extend

extend(__name__, __path__)
