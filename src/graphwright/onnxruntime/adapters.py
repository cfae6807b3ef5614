"""LoRA adapters: files of named tensors that replace initializers of a model for a run (Hu et al. 2021).

The files are FlatBuffers. An adapter has the fields format version, adapter version, model version and
parameters; a parameter has its name, sizes, element type in TensorProto's numbers, and bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from graphwright.frontends.onnx.dtypes import dtype_from_onnx
from graphwright.frontends.onnx.faults import Fault
from graphwright.frontends.onnx.flatbuffer import Buffer, DamagedError, Table
from graphwright.ir.arrays import np
from graphwright.onnxruntime.values import OrtValue

FORMAT_VERSION: Final = 1
_IDENTIFIER: Final = b"TORT"
_PARAMETERS: Final = 3
"""The number of the field of an adapter."""
_ALIGNMENT: Final = 8


class AdapterFormat:
    """The contents of an adapter's file."""

    def __init__(self, adapter: AdapterFormat | None = None) -> None:
        self._versions: list[int] = [FORMAT_VERSION, 0, 0] if adapter is None else adapter._versions
        self._parameters: dict[str, OrtValue] = {} if adapter is None else adapter._parameters

    @staticmethod
    def read_adapter(file_path: str) -> AdapterFormat:
        """Raises RuntimeError for a file that is missing or no adapter, and TypeError for no path."""
        if not isinstance(file_path, str):
            raise TypeError(f"an adapter is read from a path as text, not {file_path!r}")
        try:
            data = Path(file_path).read_bytes()
            return _parsed(data)
        except OSError as error:
            raise RuntimeError(f"the adapter {file_path} cannot be read: {error.strerror}") from error
        except (DamagedError, Fault, ValueError) as error:
            raise RuntimeError(f"{file_path} is not an adapter: {error}") from error

    def export_adapter(self, file_path: str) -> None:
        """Writes the file. Raises OSError."""
        Path(file_path).write_bytes(_serialized(self._versions, self._parameters))

    def get_format_version(self) -> int:
        """The version of the format, which is 1."""
        return self._versions[0]

    def get_adapter_version(self) -> int:
        """The version that its author gave it."""
        return self._versions[1]

    def set_adapter_version(self, adapter_version: int) -> None:
        """Sets the version that its author gives it."""
        self._versions[1] = adapter_version

    def get_model_version(self) -> int:
        """The version of the model that it belongs to."""
        return self._versions[2]

    def set_model_version(self, model_version: int) -> None:
        """Sets the version of the model that it belongs to."""
        self._versions[2] = model_version

    def get_parameters(self) -> dict[str, OrtValue]:
        """The tensors by the names of the initializers that they replace."""
        return dict(self._parameters)

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        """Replaces all tensors. Raises AttributeError for other values than OrtValues."""
        self._parameters = {name: value._ortvalue for name, value in params.items()}


class LoraAdapter:
    """An adapter that runs can activate (``RunOptions.add_active_adapter``)."""

    def __init__(self) -> None:
        self.parameters: dict[str, OrtValue] = {}

    def Load(self, file_path: str) -> None:
        """Reads the file. Raises as :meth:`AdapterFormat.read_adapter`."""
        self.parameters = AdapterFormat.read_adapter(file_path).get_parameters()


def _parsed(data: bytes) -> AdapterFormat:
    if data[4:8] != _IDENTIFIER:
        raise DamagedError("its identifier is missing")
    root = Buffer(memoryview(data)).root()
    found = AdapterFormat()
    found._versions = [root.int32(field) for field in range(3)]
    if found.get_format_version() != FORMAT_VERSION:
        raise DamagedError(f"its format has version {found.get_format_version()}, not {FORMAT_VERSION}")
    found._parameters = dict(map(_parameter, root.tables(_PARAMETERS)))
    return found


def _parameter(table: Table) -> tuple[str, OrtValue]:
    name, sizes, dtype = str(table.data(0), "utf-8"), table.int64s(1), dtype_from_onnx(table.int32(2))
    content = np.frombuffer(table.data(3), dtype.numpy)
    if math.prod(sizes) != content.size:
        raise DamagedError(f"{name!r} has {content.size} elements for the sizes {sizes}")
    return name, OrtValue(content.reshape(sizes).copy(), dtype)


def _serialized(versions: list[int], parameters: Mapping[str, OrtValue]) -> bytes:
    """The FlatBuffer of an adapter. Each table follows its list of fields, and what a table refers to follows
    it.
    """
    data = bytearray(struct.pack("<I4s", 0, _IDENTIFIER))
    adapter = _table(data, [*versions, 0])
    _refer(data, 0, adapter)
    entries = _vector(data, bytes(4 * len(parameters)), len(parameters))
    _refer(data, adapter + 4 * (1 + _PARAMETERS), entries)
    for index, (name, value) in enumerate(parameters.items()):
        table = _table(data, [0, 0, value.element_type(), 0])
        _refer(data, entries + 4 * (1 + index), table)
        text, sizes, content = name.encode(), value.shape(), value.array().tobytes()
        _refer(data, table + 4, _vector(data, text + b"\0", len(text)))
        _refer(data, table + 8, _vector(data, struct.pack(f"<{len(sizes)}q", *sizes), len(sizes)))
        _refer(data, table + 16, _vector(data, content, len(content)))
    return bytes(data)


def _table(data: bytearray, fields: list[int]) -> int:
    """Appends a table of 32-bit fields, and returns its position."""
    data += bytes(-len(data) % _ALIGNMENT)
    offsets = [4 * (1 + index) for index in range(len(fields))]
    listing = struct.pack(f"<{2 + len(fields)}H", 4 + 2 * len(fields), 4 + 4 * len(fields), *offsets)
    at = len(data)
    data += listing + bytes(-len(listing) % 4)
    table = len(data)
    data += struct.pack(f"<{1 + len(fields)}i", table - at, *fields)
    return table


def _vector(data: bytearray, content: bytes, count: int) -> int:
    """Appends a vector whose elements are aligned, and returns its position."""
    data += bytes(-(len(data) + 4) % _ALIGNMENT)
    at = len(data)
    data += struct.pack("<I", count) + content
    return at


def _refer(data: bytearray, field: int, target: int) -> None:
    struct.pack_into("<I", data, field, target - field)
