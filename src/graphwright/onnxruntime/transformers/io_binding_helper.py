"""The names of element types in ONNX Runtime, ONNX, NumPy and PyTorch. The package optimum uses them."""

from __future__ import annotations

from typing import Any, Final

from graphwright.frontends.onnx.dtypes import onnx_number
from graphwright.frontends.torch.types import Unsupported, torch_dtype
from graphwright.ir.arrays import np
from graphwright.ir.dtypes import DTYPES, STRING, DType
from graphwright.onnxruntime.session import InferenceSession
from graphwright.onnxruntime.signature import NodeArg
from graphwright.session import ort_type_text

_BY_TEXT: Final = {ort_type_text(dtype): dtype for dtype in DTYPES.values()}
_BY_NUMPY: Final = {str(dtype.numpy): dtype for dtype in DTYPES.values() if dtype is not STRING}


class TypeHelper:
    """Conversions between the names; all raise ValueError for a type that the other side does not have."""

    @staticmethod
    def get_input_type(ort_session: InferenceSession, name: str) -> str:
        """The type of an input, such as ``tensor(float)``."""
        return _type_of(ort_session.get_inputs(), name, "input")

    @staticmethod
    def get_output_type(ort_session: InferenceSession, name: str) -> str:
        """The type of an output."""
        return _type_of(ort_session.get_outputs(), name, "output")

    @staticmethod
    def ort_type_to_numpy_type(ort_type: str) -> Any:
        """NumPy's type, or that of ml_dtypes."""
        return _numpy_type(_dtype(_BY_TEXT, ort_type))

    @staticmethod
    def ort_type_to_torch_type(ort_type: str) -> Any:
        """PyTorch's type."""
        return _torch_type(_dtype(_BY_TEXT, ort_type))

    @staticmethod
    def ort_type_to_onnx_type(ort_type: str) -> int:
        """The number of TensorProto."""
        return onnx_number(_dtype(_BY_TEXT, ort_type))

    @staticmethod
    def numpy_type_to_torch_type(numpy_type: Any) -> Any:
        """PyTorch's type for a type of NumPy."""
        return _torch_type(_dtype(_BY_NUMPY, str(np.dtype(numpy_type))))

    @staticmethod
    def torch_type_to_numpy_type(torch_type: Any) -> Any:
        """NumPy's type for a type of PyTorch."""
        return _numpy_type(_dtype(_BY_NUMPY, str(torch_type).removeprefix("torch.")))

    @staticmethod
    def get_io_numpy_type_map(ort_session: InferenceSession) -> dict[str, Any]:
        """NumPy's types of all inputs and outputs."""
        return {arg.name: TypeHelper.ort_type_to_numpy_type(arg.type) for arg in _all(ort_session)}

    @staticmethod
    def get_io_torch_type_map(ort_session: InferenceSession) -> dict[str, Any]:
        """PyTorch's types of all inputs and outputs."""
        return {arg.name: TypeHelper.ort_type_to_torch_type(arg.type) for arg in _all(ort_session)}

    @staticmethod
    def get_io_onnx_type_map(ort_session: InferenceSession) -> dict[str, int]:
        """The numbers of TensorProto for all inputs and outputs."""
        return {arg.name: TypeHelper.ort_type_to_onnx_type(arg.type) for arg in _all(ort_session)}


def _all(session: InferenceSession) -> list[NodeArg]:
    return [*session.get_inputs(), *session.get_outputs()]


def _type_of(args: list[NodeArg], name: str, what: str) -> str:
    for arg in args:
        if arg.name == name:
            return arg.type
    raise ValueError(f"{what} name {name} not found: the model has {', '.join(arg.name for arg in args)}")


def _dtype(known: dict[str, DType], name: str) -> DType:
    if name not in known:
        raise ValueError(f"{name} not found in map: the types are {', '.join(known)}")
    return known[name]


def _numpy_type(dtype: DType) -> Any:
    if dtype is STRING:
        raise ValueError("NumPy has no element type for strings: they are objects")
    return bool if dtype.kind == "bool" else dtype.numpy.type


def _torch_type(dtype: DType) -> Any:
    try:
        return torch_dtype(dtype)
    except Unsupported as error:
        raise ValueError(str(error)) from error
