"""The header of weights in the safetensors format: the dtype, shape and location of each tensor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from graphwright.ir.dtypes import DTYPES, MAX_RANK, STRING, DType
from graphwright.package.zip_directory import ALIGNMENT
from graphwright.records import dataclass

_NAMES = {
    "bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64",
    "u8": "U8", "u16": "U16", "u32": "U32", "u64": "U64",
    "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64", "f8e4m3fn": "F8_E4M3", "f8e5m2": "F8_E5M2",
}  # fmt: skip


class BadWeights(ValueError):
    """The bytes are not weights as :mod:`graphwright.package.pack_weights` makes them."""


@dataclass(frozen=True)
class Tensor:
    """The dtype and shape of a tensor, and its location in the data: ``size`` bytes at ``start``."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    size: int


Kind = tuple[DType, tuple[int, ...], int]
"""The dtype, shape and size in bytes of a tensor."""


def lay_out(
    kinds: Mapping[str, Kind], same: Mapping[str, str] | None = None, start: int = 0
) -> tuple[dict[str, Tensor], int]:
    """Lays tensors out one after the other from ``start`` on; also returns the end of the last one. ``same``
    maps a tensor to an earlier one of equal bytes, whose location it shares.
    """
    tensors: dict[str, Tensor] = {}
    end = start
    for name, (dtype, shape, size) in kinds.items():
        first = (same or {}).get(name)
        tensors[name] = Tensor(dtype, shape, end if first is None else tensors[first].start, size)
        end = aligned(end + size) if first is None else end
    return tensors, end


def first_at_location(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For each tensor, the first tensor at the same location, which may be itself."""
    first_at: dict[int, str] = {}
    return {name: first_at.setdefault(t.start, name) if t.size else name for name, t in tensors.items()}


def aligned(position: int) -> int:
    """``position`` rounded up to the alignment."""
    return position + -position % ALIGNMENT


def header_of(tensors: Mapping[str, Tensor], runs: Mapping[str, int] | None = None) -> bytes:
    """The header: its length and its JSON, padded to the alignment. ``runs`` has the stored size of tensors
    that are run-length encoded.
    """
    kinds: dict[str, str] = {}
    header: dict[str, Any] = {"__metadata__": kinds}
    start = 0
    for name, first in first_at_location(tensors).items():
        tensor, stored = tensors[name], (runs or {}).get(name)
        theirs = _NAMES.get(tensor.dtype.name) if stored is None else None
        kinds[name] = (
            tensor.dtype.name if theirs and name == first else f"{tensor.dtype.name} {list(tensor.shape)}"
        )
        if name != first:
            kinds[name] += f" as {first}"
            continue
        if stored is not None:
            kinds[name] += " runs"
        size = tensor.size if stored is None else stored
        end = start + size
        shape = list(tensor.shape) if theirs else [size]
        header[name] = {"dtype": theirs or "U8", "shape": shape, "data_offsets": [start, end]}
        if padding := -end % ALIGNMENT:
            header[f"pad{end}"] = {"dtype": "U8", "shape": [padding], "data_offsets": [end, end + padding]}
        start = end + padding
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def dtype_and_shape(kind: str, entry: Mapping[str, Any]) -> tuple[DType, tuple[int, ...]]:
    """The dtype and shape of a tensor from its metadata ``kind``; if safetensors has its dtype, the shape is
    in ``entry``.
    """
    name, _, rest = kind.partition(" ")
    shape, closing, _ = rest.partition("]")
    sizes = json.loads(shape + closing) if rest else entry["shape"]
    if len(sizes) > MAX_RANK or not _are_counts(sizes):
        raise BadWeights(f"sizes must be at most {MAX_RANK} integers, 0 or more")
    return DTYPES[name], tuple(sizes)


def check_size(dtype: DType, shape: tuple[int, ...], size: int) -> None:
    """Raises BadWeights unless a tensor of this dtype and shape has ``size`` bytes."""
    if dtype is not STRING and size != prod(shape) * dtype.bytes:
        raise BadWeights("the size of a tensor is wrong")


def read_tensor(data_size: int, entry: dict[str, Any], kind: str) -> Tensor:
    """The tensor that ``entry`` of the header and ``kind`` of the metadata describe.

    Raises BadWeights if the tensor is not within ``data_size`` bytes or has a wrong size, and KeyError,
    TypeError or ValueError if ``entry`` or ``kind`` is malformed.
    """
    dtype, shape = dtype_and_shape(kind, entry)
    start, end = entry["data_offsets"]
    if not _are_counts((start, end)):
        raise BadWeights(f"sizes must be at most {MAX_RANK} integers, 0 or more")
    if not start <= end <= data_size:
        raise BadWeights("a tensor is outside the data")
    check_size(dtype, shape, end - start)
    return Tensor(dtype, shape, start, end - start)


def _are_counts(numbers: Iterable[object]) -> bool:
    return all(type(n) is int and n >= 0 for n in numbers)
