"""Converts ONNX tensors to NumPy arrays, and checks all sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import onnx

from graphwright.frontends.onnx.dtypes import dtype_from_onnx
from graphwright.frontends.onnx.faults import Fault, text
from graphwright.frontends.onnx.model_files import DAMAGED, ModelFiles
from graphwright.frontends.onnx.packed_codes import regrouped
from graphwright.ir.op import Array
from graphwright.ir.types import MAX_RANK, STRING, DType

MAX_DENSE_BYTES = 2**30
"""The largest dense form of a sparse tensor, as a few bytes could request any amount of memory."""
_LARGE = 1 << 16
"""Bytes from which on unaligned elements are not copied, because they are only read once, by packing."""

P = onnx.TensorProto
_WIDE_FIELDS: dict[str, tuple[str, str]] = {
    "f32": ("float_data", "<f4"), "c64": ("float_data", "<f4"), "f64": ("double_data", "<f8"),
    "c128": ("double_data", "<f8"), "i64": ("int64_data", "<i8"), "u64": ("uint64_data", "<u8"),
    "u32": ("uint64_data", "<u4"), "i32": ("int32_data", "<i4"),
}  # fmt: skip
"""The field and stored type of dtypes whose values are not in ``int32_data``."""


def to_array(tensor: onnx.TensorProto, files: ModelFiles) -> Array:
    """The elements of ``tensor``. Raises Fault if its fields are inconsistent."""
    dtype, shape = dtype_from_onnx(tensor.data_type), _shape(tensor.dims)
    if tensor.HasField("segment"):
        raise Fault("tensor", "segmented tensors are not supported", "save the model with whole tensors")
    count = math.prod(shape)
    if tensor.data_location == P.EXTERNAL:
        flat = _external(tensor, dtype, count, files)
    elif tensor.HasField("raw_data"):
        data = files.raw_data(tensor) if count else tensor.raw_data
        flat = _from_bytes(np.frombuffer(data, np.uint8), dtype, count)
    elif dtype is STRING:
        flat = np.array([_decode(s) for s in tensor.string_data] + [None], object)[:-1]
    else:
        flat = _from_fields(tensor, dtype, count)
    if flat.size != count:
        message = f"shape {list(shape)} needs {count} elements, but the tensor has {flat.size}"
        raise Fault("tensor", message, DAMAGED)
    try:
        return flat.reshape(shape)
    except ValueError as error:
        raise Fault("tensor", f"{list(shape)} is not a valid shape: {error}", DAMAGED) from error


def sparse_to_array(sparse: onnx.SparseTensorProto, files: ModelFiles) -> Array:
    """A sparse tensor (COO with linear or per-axis indices) as a dense array."""
    values, indices, shape = (
        to_array(sparse.values, files),
        to_array(sparse.indices, files),
        _shape(sparse.dims),
    )
    count = math.prod(shape)
    if count * max(1, values.itemsize) > MAX_DENSE_BYTES:
        raise Fault(
            "tensor",
            f"a sparse tensor of shape {list(shape)} takes more than {MAX_DENSE_BYTES} bytes when dense",
            "store it as a dense initializer, with external data if the model exceeds 2 GiB",
        )
    dense = np.zeros(count, values.dtype)
    try:
        linear = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        if linear.size and int(np.min(linear)) < 0:
            raise IndexError("an index is negative")
        if linear.shape != values.shape:
            raise IndexError(f"{linear.size} indices for {values.size} values")
        dense[linear] = values
    except (ValueError, IndexError, TypeError) as error:
        raise Fault(
            "tensor", f"the indices of a sparse tensor do not fit shape {list(shape)}: {error}", DAMAGED
        ) from error
    return dense.reshape(shape)


def _shape(dims: Any) -> tuple[int, ...]:
    shape = tuple(int(d) for d in dims)
    if len(shape) > MAX_RANK or any(d < 0 for d in shape) or math.prod(d for d in shape if d) >= 2**62:
        shown = ", ".join(map(str, shape[:8]))
        raise Fault("tensor", f"[{shown}] is not a valid shape", DAMAGED)
    return shape


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        hint = "encode the strings as UTF-8, which ONNX requires"
        raise Fault("text", f"an element of a string tensor is not UTF-8: {error}", hint) from error


def _byte_count(dtype: DType, count: int) -> int:
    return (count * dtype.bits + 7) // 8


def _from_bytes(data: Array, dtype: DType, count: int) -> Array:
    """Elements from little-endian bytes. Elements of types below 8 bits are unpacked to one byte each."""
    if dtype is STRING:
        raise Fault("tensor", "a string tensor cannot hold raw data", "store the texts in string_data")
    if data.size != _byte_count(dtype, count):
        raise Fault(
            "tensor",
            f"{count} x {dtype} takes {_byte_count(dtype, count)} bytes, but the data has {data.size}",
            DAMAGED,
        )
    if dtype.bits >= 8:
        copied = data.size < _LARGE or not dtype.numpy.isbuiltin
        if copied and data.ctypes.data % dtype.numpy.itemsize:
            data = data.copy()
        return data.view(dtype.numpy.newbyteorder("<") if dtype.numpy.isbuiltin else dtype.numpy)
    return _lanes_to(regrouped(data, 8, dtype.bits)[:count], dtype)


def _lanes_to(lanes: Array, dtype: DType) -> Array:
    """Elements from the unpacked codes of a type below 8 bits."""
    if dtype.kind == "int":
        sign = np.uint8(1 << (dtype.bits - 1))
        return ((lanes ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype.numpy)
    return lanes.astype(dtype.numpy) if dtype.kind == "uint" else lanes.view(dtype.numpy)


def _from_fields(tensor: onnx.TensorProto, dtype: DType, count: int) -> Array:
    """Elements from the typed fields: narrow types are stored in ``int32_data``, complex ones as pairs."""
    if dtype.name in _WIDE_FIELDS:
        field, stored = _WIDE_FIELDS[dtype.name]
        values = getattr(tensor, field)
        try:
            return np.asarray(values, stored).view(dtype.numpy)
        except (ValueError, OverflowError) as error:
            raise Fault("tensor", f"{field} does not contain {dtype} values: {error}", DAMAGED) from error
    codes = np.asarray(tensor.int32_data, np.int32)
    if dtype.bits in (2, 4):
        return _from_bytes(codes.astype(np.uint8), dtype, count)
    if dtype.bits < 8:  # one code in each number
        return _lanes_to((codes & ((1 << dtype.bits) - 1)).astype(np.uint8), dtype)
    return codes.astype(f"<u{dtype.bytes}").view(dtype.numpy)


def mapped_contents(tensors: Iterable[onnx.TensorProto], files: ModelFiles) -> list[memoryview]:
    """The bytes of large tensors in files, which :func:`to_array` will read later. Faulty tensors are
    skipped, as :func:`to_array` reports them.
    """
    contents = list(files.weights.values())
    for tensor in tensors:
        if tensor.data_location == P.EXTERNAL:
            with suppress(Fault):
                dtype, count = dtype_from_onnx(tensor.data_type), math.prod(_shape(tensor.dims))
                if _byte_count(dtype, count) >= _LARGE:
                    contents.append(_external_bytes(tensor, dtype, count, files).data)
    return contents


def _external(tensor: onnx.TensorProto, dtype: DType, count: int, files: ModelFiles) -> Array:
    return _from_bytes(_external_bytes(tensor, dtype, count, files), dtype, count)


def _external_bytes(tensor: onnx.TensorProto, dtype: DType, count: int, files: ModelFiles) -> Array:
    entries = {text(entry.key): text(entry.value) for entry in tensor.external_data}
    if not entries.get("location"):
        raise Fault("external-data", "an external tensor has no location", DAMAGED)
    file, needed = files.open(entries["location"]), _byte_count(dtype, count)
    size = file.stat().st_size
    offset, length = _number(entries, "offset"), _number(entries, "length") or needed
    if length != needed:
        raise Fault(
            "external-data",
            f"{count} x {dtype} takes {needed} bytes, but its length is given as {length}",
            DAMAGED,
        )
    if offset + needed > size:
        message = f"bytes {offset} to {offset + needed} of {entries['location']!r}, which has only {size}"
        raise Fault(
            "external-data", message, "download the file again: it is truncated or belongs to another model"
        )
    if not needed:
        return np.empty(0, np.uint8)
    return np.frombuffer(files.mapped(file), np.uint8, needed, offset)


def _number(entries: dict[str, str], key: str) -> int:
    """An offset or a length in bytes; some exporters write 0 for one that is not given."""
    written = entries.get(key, "0")
    if not (written.isascii() and written.isdigit() and len(written) < 20):
        raise Fault("external-data", f"{key} {written!r} is not a number of bytes", DAMAGED)
    return int(written)
