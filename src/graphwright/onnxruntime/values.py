"""OrtValue: an array, a list of arrays, a dict or None, with its ONNX type."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from graphwright.frontends.onnx.dtypes import dtype_from_onnx, onnx_number
from graphwright.ir.arrays import Array, np
from graphwright.ir.dtypes import STRING, DType, dtype_of, optional_of
from graphwright.onnxruntime.devices import require_cpu
from graphwright.runtime.feeds.conversion import narrow_float_capsule, narrow_float_view
from graphwright.session import ort_type_text

_CPU_IN_DLPACK = (1, 0)
"""Kind and number of the device, in DLPack's numbers."""


class OrtValue:
    """A value of a model. Made by the functions below, which share memory with what they are given."""

    def __init__(self, value: Any, dtype: DType | None = None) -> None:
        """``value`` as a model takes or gives it, or an OrtValue, whose memory is shared."""
        self._value: Any = value.held() if isinstance(value, OrtValue) else value
        self._dtype: DType = value.dtype() if isinstance(value, OrtValue) else dtype or value_type(value)

    @property
    def _ortvalue(self) -> OrtValue:
        """The native value, which ONNX Runtime's Python class wraps and some scripts pass on."""
        return self

    def _get_c_value(self) -> OrtValue:
        return self

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """An array of numbers as it is; a copy only if it is not C-contiguous. Raises RuntimeError."""
        require_cpu(device_type, device_id, vendor_id)
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "MOUSVm":
            known = isinstance(numpy_obj, np.ndarray)
            what = f"an array of {numpy_obj.dtype}" if known else type(numpy_obj).__name__
            raise RuntimeError(f"an OrtValue is created from a NumPy array of numbers, not from {what}")
        return cls(np.asarray(numpy_obj, order="C"))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, /, onnx_element_type: int) -> OrtValue:
        """The bytes of ``data`` as elements of another type of equal size, given by its number in
        TensorProto.

        Raises RuntimeError, and TypeError for a value that is not an array.
        """
        if not isinstance(data, np.ndarray):
            raise TypeError(
                f"data must be a NumPy array with the bytes of the elements, not {type(data).__name__}"
            )
        dtype = dtype_from_onnx(onnx_element_type)
        if data.dtype.itemsize != dtype.bytes:
            raise RuntimeError(f"{dtype} has {dtype.bytes} bytes, {data.dtype} has {data.dtype.itemsize}")
        return cls(np.asarray(data, order="C").view(dtype.numpy), dtype)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: object = None,
    ) -> OrtValue:
        """A new array of zeros; the type is NumPy's, or a number of TensorProto. Raises RuntimeError."""
        require_cpu(device_type, device_id, vendor_id)
        dtype = element_dtype(element_type)
        try:
            return cls(np.zeros(_sizes(shape), dtype.numpy), dtype)
        except (MemoryError, ValueError) as error:
            raise RuntimeError(f"there is no array of {dtype} with shape {list(shape)}: {error}") from error

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: object) -> OrtValue:
        """Raises RuntimeError: there are no sparse values here."""
        raise RuntimeError("graphwright runs dense tensors: make the sparse one dense")

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A tensor of another library, sharing its memory; or a capsule. Raises TypeError."""
        source: Any = data if hasattr(data, "__dlpack__") else _Capsule(data)
        try:
            return cls(_writable(np.from_dlpack(source)))
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            narrow = narrow_float_view(source)
            if narrow is None:
                fault = f"{type(data).__name__} is not a DLPack tensor that NumPy can read: {error}"
                raise TypeError(fault) from error
            return cls(_writable(narrow))

    def array(self) -> Array:
        """The array; raises RuntimeError where it holds none."""
        if not isinstance(self._value, np.ndarray):
            raise RuntimeError(f"this OrtValue is {self.data_type()}, not a tensor")
        return self._value

    def held(self) -> Any:
        """The value in the form that models accept."""
        return self._value

    def dtype(self) -> DType:
        """Its type in graphwright."""
        return self._dtype

    def numpy(self) -> Array:
        """The array, not a copy. Raises RuntimeError where it holds none."""
        return self.array()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        copied: Array = np.array(self.array(), dtype, copy=copy)
        return copied

    def __dlpack__(self, **how: Any) -> Any:
        """A capsule that shares the memory, also of arrays and types for which NumPy makes none."""
        array = self.array()
        return narrow_float_capsule(array, self._dtype) or _writable(array).__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU_IN_DLPACK

    def to_dlpack(self) -> Any:
        """A DLPack capsule that shares the memory."""
        return self.__dlpack__()

    def update_inplace(self, data: Any) -> None:
        """Overwrite the elements; raises TypeError, and RuntimeError for another number of elements."""
        if not isinstance(data, np.ndarray | OrtValue):
            raise TypeError("data must be a numpy.ndarray or an OrtValue")
        array, new = self.array(), np.asarray(data)
        if new.size != array.size:
            raise RuntimeError(f"an array of {new.size} elements does not fit in {array.size}")
        np.copyto(array, new.reshape(array.shape), casting="unsafe")

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.array().ctypes.data

    def data_type(self) -> str:
        """Its type, such as ``tensor(float)``."""
        return ort_type_text(self._dtype)

    def element_type(self) -> int:
        """The number of its element type in TensorProto."""
        self.array()
        return onnx_number(self._dtype)

    def device_name(self) -> str:
        """``cpu``."""
        return "cpu"

    def shape(self) -> list[int]:
        """Sizes of the tensor."""
        return list(self.array().shape)

    def tensor_size_in_bytes(self) -> int:
        """Bytes of its elements."""
        return self.array().nbytes

    def has_value(self) -> bool:
        """False for an optional that is empty."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Always False."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether it is a list of tensors."""
        return isinstance(self._value, list) and not any(isinstance(item, dict) for item in self._value)

    def as_sparse_tensor(self) -> object:
        """Raises RuntimeError: there are no sparse values here."""
        raise RuntimeError("this OrtValue holds no sparse tensor: graphwright has none")


class OrtValueVector(list[OrtValue]):
    """A list of values, with the methods of ONNX Runtime's."""

    def push_back(self, value: OrtValue) -> None:
        """Appends a value."""
        self.append(value)

    def element_type_at(self, idx: int) -> int:
        """The number of the element type of a value in TensorProto."""
        return self[idx].element_type()

    def dlpack_at(self, idx: int) -> Any:
        """A DLPack capsule of a value."""
        return self[idx].to_dlpack()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None) -> list[Any]:
        """A DLPack capsule of each value, or what ``to_tensor`` makes of it."""
        capsules = [value.to_dlpack() for value in self]
        return capsules if to_tensor is None else list(map(to_tensor, capsules))

    def reserve(self, count: int) -> None:
        """Does nothing: a list grows by itself."""

    def shrink_to_fit(self) -> None:
        """Does nothing, as :meth:`reserve`."""


def held(value: object, what: str) -> Any:
    """The value of an OrtValue. Raises TypeError, which names ``what``, for other objects."""
    if not isinstance(value, OrtValue):
        kind = type(value).__name__
        raise TypeError(
            f"{what} takes an OrtValue, not {kind}: OrtValue.ortvalue_from_numpy(array) makes one"
        )
    return value.held()


def _writable(array: Array) -> Array:
    """``array`` where it may be written: NumPy regards the memory of a bare capsule as constant."""
    if array.flags.writeable or not array.flags.c_contiguous or not array.size:
        return array
    memory: Any = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    memory.owner = array
    return np.frombuffer(memory, array.dtype).reshape(array.shape)


class _Capsule:
    """A bare DLPack capsule in CPU memory, as an object of the protocol."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU_IN_DLPACK


def value_type(value: Any) -> DType:
    """The ONNX type of an input or output value."""
    return optional_of(dtype_of(np.zeros(0, np.float32))) if value is None else dtype_of(value)


def element_dtype(given: Any) -> DType:
    """The element type that a NumPy type, or a number of TensorProto, stands for. Raises RuntimeError."""
    try:
        dtype = dtype_from_onnx(given) if isinstance(given, int) else dtype_of(np.empty(0, given))
    except Exception as error:
        hint = "give a NumPy type, such as np.float32, or a number of TensorProto"
        raise RuntimeError(f"{given!r} is not an element type: {error}; {hint}") from error
    if dtype is STRING:
        raise RuntimeError("memory for strings cannot be created from an address or a shape")
    return dtype


def array_at(address: int, element_type: Any, shape: Sequence[int]) -> Array:
    """The caller's memory as an array; the caller keeps it alive. Raises TypeError for no address."""
    if not hasattr(address, "__index__"):
        kind = type(address).__name__
        raise TypeError(
            f"buffer_ptr must be an address, as array.ctypes.data and tensor.data_ptr() are, not {kind}"
        )
    dtype, sizes = element_dtype(element_type), _sizes(shape)
    count = math.prod(sizes)
    if not count:
        return np.zeros(sizes, dtype.numpy)
    memory: Any = (ctypes.c_char * (count * dtype.numpy.itemsize)).from_address(address)
    view: Array = np.frombuffer(memory, dtype.numpy, count).reshape(sizes)
    return view


def _sizes(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, Iterable):
        raise TypeError(f"a shape must be a sequence of sizes, such as [2, 3], not {shape!r}")
    return tuple(shape)


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: object = None) -> None:
    """Copies the elements of each value of ``src`` to the value at the same position of ``dst``."""
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source)
