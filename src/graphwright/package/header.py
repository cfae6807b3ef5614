"""The header of weights, in the format of safetensors: where each tensor lies, and what it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from graphwright.ir.dtypes import DTYPES, STRING, DType
from graphwright.package.archive import ALIGNMENT
from graphwright.records import dataclass

MAX_RANK = 32

_NAMES = {
    "bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64",
    "u8": "U8", "u16": "U16", "u32": "U32", "u64": "U64",
    "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64", "f8e4m3fn": "F8_E4M3", "f8e5m2": "F8_E5M2",
}  # fmt: skip


class BadWeights(ValueError):
    """The bytes are not what :func:`graphwright.package.weights.pack_weights` makes."""


@dataclass(frozen=True)
class Tensor:
    """Where one tensor lies in the data: ``size`` bytes from byte ``start`` on."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    size: int


Kind = tuple[DType, tuple[int, ...], int]
"""Of a tensor: its dtype, its shape, its bytes."""


def laid_out(
    kinds: Mapping[str, Kind], same: Mapping[str, str] | None = None, start: int = 0
) -> tuple[dict[str, Tensor], int]:
    """Tensors one behind the other from ``start`` on, those of ``same`` on the ones that they equal; where
    the last ends.
    """
    tensors: dict[str, Tensor] = {}
    end = start
    for name, (dtype, shape, size) in kinds.items():
        first = (same or {}).get(name)
        tensors[name] = Tensor(dtype, shape, end if first is None else tensors[first].start, size)
        end = aligned(end + size) if first is None else end
    return tensors, end


def firsts_of(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """By name, the first tensor at the same place: itself where it is alone."""
    places: dict[int, str] = {}
    return {name: places.setdefault(t.start, name) if t.size else name for name, t in tensors.items()}


def aligned(position: int) -> int:
    """The first aligned position that is not before this one."""
    return position + -position % ALIGNMENT


def header_of(tensors: Mapping[str, Tensor], runs: Mapping[str, int] | None = None) -> bytes:
    """The length and the JSON behind it, padded to the alignment; ``runs`` has the bytes of what repeats."""
    kinds: dict[str, str] = {}
    header: dict[str, Any] = {"__metadata__": kinds}
    start = 0
    for name, first in firsts_of(tensors).items():
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
    """What the metadata says of a tensor; the shape is in its entry where the format names its dtype."""
    name, _, rest = kind.partition(" ")
    shape, closing, _ = rest.partition("]")
    sizes = json.loads(shape + closing) if rest else entry["shape"]
    if len(sizes) > MAX_RANK or not _are_counts(sizes):
        raise BadWeights("sizes must be whole numbers, 0 or more")
    return DTYPES[name], tuple(sizes)


def check_size(dtype: DType, shape: tuple[int, ...], size: int) -> None:
    """Raise BadWeights where a tensor of this dtype and shape has not ``size`` bytes."""
    if dtype is not STRING and size != prod(shape) * dtype.bytes:
        raise BadWeights("the size of a tensor is wrong")


def read_tensor(data_size: int, entry: dict[str, Any], kind: str) -> Tensor:
    """The tensor that the header's ``entry`` and the metadata's ``kind`` describe. Raises BadWeights where it
    is not within ``data_size`` bytes, or has another size; KeyError, TypeError and ValueError where these are
    malformed.
    """
    dtype, shape = dtype_and_shape(kind, entry)
    start, end = entry["data_offsets"]
    if not _are_counts((start, end)):
        raise BadWeights("sizes must be whole numbers, 0 or more")
    if not start <= end <= data_size:
        raise BadWeights("a tensor lies outside of the data")
    check_size(dtype, shape, end - start)
    return Tensor(dtype, shape, start, end - start)


def _are_counts(numbers: Iterable[object]) -> bool:
    return all(type(n) is int and n >= 0 for n in numbers)
