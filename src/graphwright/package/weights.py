"""Weights as one safetensors member, every tensor aligned to 64 bytes.

The format (an 8-byte length, a JSON header, the bytes, without holes) has no alignment of its own: tensors called
``pad...`` fill the gaps. Types that it does not name are kept as bytes, their dtype in the header's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphwright.ir.types import DTYPES, dtype_of

Array = np.ndarray[Any, Any]
ALIGNMENT = 64

_NAMES = {
    "bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32",
    "u64": "U64", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64", "f8e4m3fn": "F8_E4M3", "f8e5m2": "F8_E5M2",
}  # fmt: skip
_OURS = {theirs: ours for ours, theirs in _NAMES.items()}


class BadWeights(ValueError):
    """The bytes are not what :func:`write_weights` writes."""


@dataclass(frozen=True)
class Weights:
    """The data behind the header, and the arrays in it (read-only views)."""

    data: memoryview
    arrays: dict[str, Array]


def offsets_of(arrays: Mapping[str, Array]) -> dict[str, int]:
    """Byte offset of each array in the data."""
    offsets: dict[str, int] = {}
    position = 0
    for name, array in arrays.items():
        offsets[name] = position
        position += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets


def write_weights(arrays: Mapping[str, Array]) -> bytes:
    """The member's bytes."""
    offsets = offsets_of(arrays)
    header: dict[str, Any] = {"__metadata__": {n: dtype_of(a).name for n, a in arrays.items()}}
    pieces: list[bytes] = []
    for name, array in arrays.items():
        theirs = _NAMES.get(dtype_of(array).name)
        start, end = offsets[name], offsets[name] + array.nbytes
        shape = list(array.shape) if theirs else [array.nbytes]
        header[name] = {"dtype": theirs or "U8", "shape": shape, "data_offsets": [start, end]}
        if not theirs:
            header["__metadata__"][name] += f" {list(array.shape)}"
        padding = -end % ALIGNMENT
        if padding:
            header[f"pad{end}"] = {"dtype": "U8", "shape": [padding], "data_offsets": [end, end + padding]}
        pieces += [array.tobytes(), bytes(padding)]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    return b"".join([len(text).to_bytes(8, "little"), text, *pieces])


def read_weights(member: memoryview) -> Weights:
    """The inverse of :func:`write_weights`; every offset is checked against the data, every size against its shape."""
    try:
        length = int.from_bytes(member[:8], "little")
        if 8 + length > len(member):
            raise BadWeights("the header is longer than the file")
        header = json.loads(bytes(member[8 : 8 + length]))
        data = member[8 + length :]
        kinds = header.pop("__metadata__")
        return Weights(data, {name: _array(data, header[name], kinds[name]) for name in kinds})
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BadWeights(f"bad header: {error}") from error


def _array(data: memoryview, entry: dict[str, Any], kind: str) -> Array:
    name, _, odd_shape = kind.partition(" ")
    dtype = DTYPES[name]
    shape = [int(n) for n in (json.loads(odd_shape) if odd_shape else entry["shape"])]
    start, end = (int(n) for n in entry["data_offsets"])
    size = dtype.bytes
    for n in shape:
        if n < 0:
            raise BadWeights("a negative size")
        size *= n
    if not 0 <= start <= end <= len(data) or end - start != size:
        raise BadWeights("a tensor lies outside of the data, or its size is wrong")
    return np.frombuffer(data[start:end], dtype=dtype.numpy).reshape(shape)
