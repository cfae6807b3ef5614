"""Weights as one safetensors member, every tensor aligned to 64 bytes.

The format (an 8-byte length, a JSON header, the bytes, without holes) has no alignment of its own: tensors
called ``pad...`` fill the gaps. Types that it does not name are kept as bytes, strings as JSON; their dtype
and shape are in the header's metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any

from graphwright.ir.arrays import Array, np
from graphwright.ir.deferred import Deferred
from graphwright.ir.dtypes import DTYPES, STRING, DType, dtype_of
from graphwright.package.archive import ALIGNMENT, aligned_memory
from graphwright.package.parts import PART, do_side_by_side, thread_count

MAX_RANK = 32

_NAMES = {
    "bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64",
    "u8": "U8", "u16": "U16", "u32": "U32", "u64": "U64",
    "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64", "f8e4m3fn": "F8_E4M3", "f8e5m2": "F8_E5M2",
}  # fmt: skip


class BadWeights(ValueError):
    """The bytes are not what :func:`pack_weights` makes."""


@dataclass(frozen=True)
class Tensor:
    """Where one tensor lies in the data: ``size`` bytes from byte ``start`` on."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    size: int


@dataclass(frozen=True)
class Weights:
    """The member in two parts: the header, with its length before it, and the aligned data behind it."""

    header: bytes
    data: memoryview
    tensors: Mapping[str, Tensor]

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The tensors as arrays: read-only views of the data, but for strings."""
        return {name: self._array(tensor) for name, tensor in self.tensors.items()}

    def index_digest(self) -> str:
        """SHA-256 of the header and of all that is no float: elements that may be places in memory."""
        state = hashlib.sha256(self.header)
        for tensor in self.tensors.values():
            if not tensor.dtype.is_float:
                state.update(self._bytes(tensor))
        return state.hexdigest()

    def _bytes(self, tensor: Tensor) -> memoryview:
        return self.data[tensor.start : tensor.start + tensor.size]

    def _array(self, tensor: Tensor) -> Array:
        if tensor.dtype is STRING:
            return _strings(self._bytes(tensor), tensor.shape)
        return np.ndarray(tensor.shape, tensor.dtype.numpy, self._bytes(tensor))


def pack_weights(arrays: Mapping[str, Array | Deferred]) -> Weights:
    """Put ``arrays``, which are contiguous or made here, into one block of memory."""
    tensors: dict[str, Tensor] = {}
    end = 0
    for name, array in arrays.items():
        dtype = array.dtype if isinstance(array, Deferred) else dtype_of(array)
        size = array.nbytes if isinstance(array, Deferred) else _bytes(array).size
        tensors[name] = Tensor(dtype, array.shape, end, size)
        end = _aligned(end + size)
    data = aligned_memory(end)
    target = np.frombuffer(data, np.uint8)
    jobs: list[Callable[[], object]] = []
    for name, array in arrays.items():
        place = target[tensors[name].start :][: tensors[name].size]
        if isinstance(array, Deferred):
            jobs.append(partial(array.fill, place.view(array.dtype.numpy).reshape(array.shape)))
        else:
            source = _bytes(array)
            parts = (slice(k, k + PART) for k in range(0, len(place), PART))
            jobs += [partial(np.copyto, place[part], source[part]) for part in parts]
    do_side_by_side(jobs, thread_count(end))
    for tensor in tensors.values():
        stop = tensor.start + tensor.size
        data[stop : _aligned(stop)] = bytes(-stop % ALIGNMENT)
    return Weights(_header(tensors), data.toreadonly(), tensors)


def no_weights() -> Weights:
    """None at all."""
    return pack_weights({})


def _bytes(array: Array) -> Array:
    if array.dtype == object:
        return np.frombuffer(json.dumps(array.ravel().tolist()).encode(), np.uint8)
    return array.reshape(-1).view(np.uint8)


def _strings(data: memoryview, shape: tuple[int, ...]) -> Array:
    array = np.empty(prod(shape), object)
    array[:] = json.loads(bytes(data))
    array.flags.writeable = False
    return array.reshape(shape)


def _aligned(position: int) -> int:
    return position + -position % ALIGNMENT


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    """The length and the JSON behind it, padded to the alignment."""
    kinds: dict[str, str] = {}
    header: dict[str, Any] = {"__metadata__": kinds}
    for name, tensor in tensors.items():
        theirs = _NAMES.get(tensor.dtype.name)
        end = tensor.start + tensor.size
        shape = list(tensor.shape) if theirs else [tensor.size]
        kinds[name] = tensor.dtype.name if theirs else f"{tensor.dtype.name} {list(tensor.shape)}"
        header[name] = {"dtype": theirs or "U8", "shape": shape, "data_offsets": [tensor.start, end]}
        if padding := -end % ALIGNMENT:
            header[f"pad{end}"] = {"dtype": "U8", "shape": [padding], "data_offsets": [end, end + padding]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def read_weights(member: memoryview) -> Weights:
    """The weights in a member; every offset is checked against the data, every size against its shape."""
    try:
        length = 8 + int.from_bytes(member[:8], "little")
        if length > len(member):
            raise BadWeights("the header is longer than the file")
        text, data = bytes(member[:length]), member[length:]
        header = json.loads(text[8:])
        kinds = header["__metadata__"].items()
        return Weights(text, data, {name: _tensor(len(data), header[name], kind) for name, kind in kinds})
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BadWeights(f"bad header: {error}") from error


def _tensor(data_size: int, entry: dict[str, Any], kind: str) -> Tensor:
    name, _, odd_shape = kind.partition(" ")
    dtype, shape = DTYPES[name], json.loads(odd_shape) if odd_shape else entry["shape"]
    start, end = entry["data_offsets"]
    if len(shape) > MAX_RANK or not _are_counts((*shape, start, end)):
        raise BadWeights("sizes must be whole numbers, 0 or more")
    if not start <= end <= data_size or (dtype is not STRING and end - start != prod(shape) * dtype.bytes):
        raise BadWeights("a tensor lies outside of the data, or its size is wrong")
    return Tensor(dtype, tuple(shape), start, end - start)


def _are_counts(numbers: Iterable[object]) -> bool:
    return all(type(n) is int and n >= 0 for n in numbers)
