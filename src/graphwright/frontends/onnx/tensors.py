"""Converts ONNX tensors to NumPy arrays, and checks all sizes. External data is memory-mapped, not copied."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import onnx

from graphwright.frontends.onnx.faults import Fault, text
from graphwright.ir.mapped import MappedFile
from graphwright.ir.names import terminal
from graphwright.ir.op import Array
from graphwright.ir.types import DTYPES, MAX_RANK, STRING, DType
from graphwright.records import dataclass, field, replace
from graphwright.support.file_kinds import FileId, file_id

_DAMAGED = "the model is damaged: download it again, or export it again"
MAX_DENSE_BYTES = 2**30
"""The largest dense form of a sparse tensor, as a few bytes could request any amount of memory."""
_LARGE = 1 << 16
"""Bytes from which on unaligned elements are not copied, because they are only read once, by packing."""

P = onnx.TensorProto
_DTYPES: dict[int, DType] = {
    P.FLOAT: DTYPES["f32"], P.UINT8: DTYPES["u8"], P.INT8: DTYPES["i8"], P.UINT16: DTYPES["u16"],
    P.INT16: DTYPES["i16"], P.INT32: DTYPES["i32"], P.INT64: DTYPES["i64"], P.STRING: STRING,
    P.BOOL: DTYPES["bool"], P.FLOAT16: DTYPES["f16"], P.DOUBLE: DTYPES["f64"], P.UINT32: DTYPES["u32"],
    P.UINT64: DTYPES["u64"], P.COMPLEX64: DTYPES["c64"], P.COMPLEX128: DTYPES["c128"],
    P.BFLOAT16: DTYPES["bf16"],
    P.FLOAT8E4M3FN: DTYPES["f8e4m3fn"], P.FLOAT8E4M3FNUZ: DTYPES["f8e4m3fnuz"], 
    P.FLOAT8E5M2: DTYPES["f8e5m2"],
    P.FLOAT8E5M2FNUZ: DTYPES["f8e5m2fnuz"], P.UINT4: DTYPES["u4"], P.INT4: DTYPES["i4"],
    23: DTYPES["f4e2m1"], 24: DTYPES["f8e8m0"], 25: DTYPES["u2"], 26: DTYPES["i2"],
}  # fmt: skip
"""By number. Where there is only a number, onnx 1.17 has no name for it."""
_WIDE_FIELDS: dict[str, tuple[str, str]] = {
    "f32": ("float_data", "<f4"), "c64": ("float_data", "<f4"), "f64": ("double_data", "<f8"),
    "c128": ("double_data", "<f8"), "i64": ("int64_data", "<i8"), "u64": ("uint64_data", "<u8"),
    "u32": ("uint64_data", "<u4"), "i32": ("int32_data", "<i4"),
}  # fmt: skip
"""The field and stored type of dtypes whose values are not in ``int32_data``."""


def dtype_from_onnx(number: int) -> DType:
    """The dtype for a number of ``TensorProto.DataType``. Raises Fault."""
    found = _DTYPES.get(number)
    if found is None:
        raise Fault("dtype", f"element type {number} is not supported", "supported are: " + ", ".join(DTYPES))
    return found


_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}


def onnx_number(dtype: DType) -> int:
    """The ``TensorProto.DataType`` of a dtype."""
    return _NUMBERS[dtype]


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model, and access to its external data."""

    path: Path | None
    """The folder of the model; None if the model was given as bytes."""
    weights: Mapping[str, memoryview] = field(default_factory=dict)
    """Raw data of initializers that was removed from the model before parsing."""
    also: Path | None = None
    """A second folder that the user allows. It is searched for files that the first folder lacks."""
    model: Path | None = None
    """The file of the model."""
    files: set[FileId] = field(default_factory=set)
    """The files that were read."""
    mappings: dict[Path, MappedFile] = field(default_factory=dict)

    def holding(self, weights: Mapping[str, memoryview]) -> ModelFiles:
        """A copy with raw data that was removed before parsing."""
        return replace(self, weights=weights)

    def note(self, file: Path) -> None:
        """Records that ``file`` is read. Raises OSError."""
        self.files.add(file_id(os.stat(file)))

    def mapped(self, file: Path) -> MappedFile:
        """The mapping of ``file``, a non-empty file from :meth:`open`; each file is mapped once."""
        if file not in self.mappings:
            self.mappings[file] = MappedFile.open(file)
        return self.mappings[file]

    def raw_data(self, tensor: onnx.TensorProto) -> bytes | memoryview:
        """The raw data of ``tensor``, whether it was parsed or removed before parsing."""
        data: bytes = tensor.raw_data
        return data or self.weights.get(tensor.name, data)

    def open(self, location: str) -> Path:
        """The regular file at ``location`` in an allowed folder. Raises Fault.

        The folder of the model is allowed and, if the path of the model is a link, the folder of its target,
        as in ONNX Runtime: in the Hugging Face cache, links in ``snapshots`` point to ``blobs``. Paths and
        links must not lead to other folders, except the one that the user allows.
        """
        shown = terminal(repr(location))
        if self.path is None and self.also is None:
            hint = "give the model's path instead of its bytes, or external_data=FOLDER (--external-data)"
            raise Fault(
                "external-data", f"weights are in the file {shown}, and the folder is not known", hint
            )
        try:
            real = self._found(location)
            mode = os.stat(real).st_mode
        except (OSError, ValueError, RuntimeError) as error:
            raise Fault(
                "external-data", f"{shown} cannot be read: {error}", "download all files of the model"
            ) from error
        if not stat.S_ISREG(mode):
            raise Fault("external-data", f"{shown} is not a regular file", _DAMAGED)
        self.note(real)
        return real

    def _found(self, location: str) -> Path:
        """The file at ``location`` with links resolved. Raises OSError, or Fault if the file is not
        allowed.
        """
        roots = [] if self.also is None else [self.also.resolve(strict=True)]
        if self.path is not None and not _leads_out(location):
            roots.append(self.path.resolve(strict=True))
            roots += [] if self.model is None else [self.model.resolve(strict=True).parent]
        if not roots:
            raise _refused(location)
        paths = [folder / location for folder in (self.path, self.also) if folder is not None]
        found = [path.resolve(strict=True) for path in paths if path.exists()]
        allowed = [real for real in found if any(map(real.is_relative_to, roots))]
        if found and not allowed:
            raise _refused(location, f": it is {terminal(str(found[0]))}")
        return allowed[0] if allowed else paths[0].resolve(strict=True)


def _refused(location: str, why: str = "") -> Fault:
    hint = "move the weights next to the model, or allow their folder: external_data=FOLDER (--external-data)"
    return Fault("external-data", f"{terminal(repr(location))} is outside the folder of the model{why}", hint)


def _leads_out(location: str) -> bool:
    """Whether ``location`` could be outside its folder on any operating system."""
    pure = PurePosixPath(location)
    absolute = pure.is_absolute() or PureWindowsPath(location).is_absolute()
    return absolute or ".." in pure.parts or "\\" in location


def to_array(tensor: onnx.TensorProto, folder: ModelFiles) -> Array:
    """The elements of ``tensor``. Raises Fault if its fields are inconsistent."""
    dtype, shape = dtype_from_onnx(tensor.data_type), _shape(tensor.dims)
    if tensor.HasField("segment"):
        raise Fault("tensor", "segmented tensors are not supported", "save the model with whole tensors")
    count = math.prod(shape)
    if tensor.data_location == P.EXTERNAL:
        flat = _external(tensor, dtype, count, folder)
    elif tensor.HasField("raw_data"):
        data = folder.raw_data(tensor) if count else tensor.raw_data
        flat = _from_bytes(np.frombuffer(data, np.uint8), dtype, count)
    elif dtype is STRING:
        flat = np.array([_decode(s) for s in tensor.string_data] + [None], object)[:-1]
    else:
        flat = _from_fields(tensor, dtype, count)
    if flat.size != count:
        message = f"shape {list(shape)} needs {count} elements, but the tensor has {flat.size}"
        raise Fault("tensor", message, _DAMAGED)
    try:
        return flat.reshape(shape)
    except ValueError as error:
        raise Fault("tensor", f"{list(shape)} is not a valid shape: {error}", _DAMAGED) from error


def sparse_to_array(sparse: onnx.SparseTensorProto, folder: ModelFiles) -> Array:
    """A sparse tensor (COO with linear or per-axis indices) as a dense array."""
    values, indices, shape = (
        to_array(sparse.values, folder),
        to_array(sparse.indices, folder),
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
            "tensor", f"the indices of a sparse tensor do not fit shape {list(shape)}: {error}", _DAMAGED
        ) from error
    return dense.reshape(shape)


def _shape(dims: Any) -> tuple[int, ...]:
    shape = tuple(int(d) for d in dims)
    if len(shape) > MAX_RANK or any(d < 0 for d in shape) or math.prod(d for d in shape if d) >= 2**62:
        shown = ", ".join(map(str, shape[:8]))
        raise Fault("tensor", f"[{shown}] is not a valid shape", _DAMAGED)
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
            _DAMAGED,
        )
    if dtype.bits >= 8:
        copied = data.size < _LARGE or not dtype.numpy.isbuiltin
        if copied and data.ctypes.data % dtype.numpy.itemsize:
            data = data.copy()
        return data.view(dtype.numpy.newbyteorder("<") if dtype.numpy.isbuiltin else dtype.numpy)
    per_byte = 8 // dtype.bits
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(dtype.bits)
    lanes = (data[:, None] >> shifts) & np.uint8((1 << dtype.bits) - 1)
    return _lanes_to(lanes.reshape(-1)[:count], dtype)


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
            raise Fault("tensor", f"{field} does not contain {dtype} values: {error}", _DAMAGED) from error
    codes = np.asarray(tensor.int32_data, np.int32)
    if dtype.bits < 8:
        return _from_bytes(codes.astype(np.uint8), dtype, count)
    return codes.astype(f"<u{dtype.bytes}").view(dtype.numpy)


def mapped_contents(tensors: Iterable[onnx.TensorProto], folder: ModelFiles) -> list[memoryview]:
    """The bytes of large tensors in files, which :func:`to_array` will read later. Faulty tensors are
    skipped, as :func:`to_array` reports them.
    """
    contents = list(folder.weights.values())
    for tensor in tensors:
        if tensor.data_location == P.EXTERNAL:
            with suppress(Fault):
                dtype, count = dtype_from_onnx(tensor.data_type), math.prod(_shape(tensor.dims))
                if _byte_count(dtype, count) >= _LARGE:
                    contents.append(_external_bytes(tensor, dtype, count, folder).data)
    return contents


def _external(tensor: onnx.TensorProto, dtype: DType, count: int, folder: ModelFiles) -> Array:
    return _from_bytes(_external_bytes(tensor, dtype, count, folder), dtype, count)


def _external_bytes(tensor: onnx.TensorProto, dtype: DType, count: int, folder: ModelFiles) -> Array:
    entries = {text(entry.key): text(entry.value) for entry in tensor.external_data}
    if not entries.get("location"):
        raise Fault("external-data", "an external tensor has no location", _DAMAGED)
    file, needed = folder.open(entries["location"]), _byte_count(dtype, count)
    size = file.stat().st_size
    offset, length = _number(entries, "offset", 0), _number(entries, "length", needed)
    if length != needed:
        raise Fault(
            "external-data",
            f"{count} x {dtype} takes {needed} bytes, but its length is given as {length}",
            _DAMAGED,
        )
    if offset + needed > size:
        message = f"bytes {offset} to {offset + needed} of {entries['location']!r}, which has only {size}"
        raise Fault(
            "external-data", message, "download the file again: it is truncated or belongs to another model"
        )
    if not needed:
        return np.empty(0, np.uint8)
    return np.frombuffer(folder.mapped(file), np.uint8, needed, offset)


def _number(entries: dict[str, str], key: str, default: int) -> int:
    written = entries.get(key, str(default))
    if not (written.isascii() and written.isdigit() and len(written) < 20):
        raise Fault("external-data", f"{key} {written!r} is not a number of bytes", _DAMAGED)
    return int(written)
