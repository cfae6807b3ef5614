"""Reads weights from a package, and decodes those that are run-length encoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

from graphwright.ir.arrays import np
from graphwright.package.parallel_fill import run_in_threads, thread_count
from graphwright.package.read_archive import aligned_memory
from graphwright.package.run_length import fill_jobs
from graphwright.package.weights import MOST_EXPANDED, Weights
from graphwright.package.weights_header import (
    BadWeights,
    Kind,
    Tensor,
    aligned,
    check_size,
    dtype_and_shape,
    header_of,
    lay_out,
    read_tensor,
)


def read_weights(member: memoryview) -> Weights:
    """Reads weights from a member. Offsets are checked against the data, and sizes against shapes. Raises
    BadWeights.
    """
    try:
        length = 8 + int.from_bytes(member[:8], "little")
        if length > len(member):
            raise BadWeights("the header is longer than the file")
        text, data = bytes(member[:length]), member[length:]
        header = json.loads(text[8:])
        kinds: dict[str, str] = header["__metadata__"]
        if any(kind.endswith("] runs") for kind in kinds.values()):
            return _expanded(header, kinds, data)
        tensors: dict[str, Tensor] = {}
        for name, kind in kinds.items():
            tensors[name] = read_tensor(len(data), _entry(header, name, kind, tensors), kind)
        return Weights(text, data, tensors)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BadWeights(f"bad header: {error}") from error


def _entry(header: Mapping[str, Any], name: str, kind: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The header entry of a tensor: its own, or that of the earlier tensor whose bytes it shares."""
    _, _, first = kind.partition("] as ")
    if not first:
        entry: dict[str, Any] = header[name]
        return entry
    return {"data_offsets": [tensors[first].start, tensors[first].start + tensors[first].size]}


def _expanded(header: Mapping[str, Any], kinds: Mapping[str, str], data: memoryview) -> Weights:
    """Weights with run-length encoded tensors, decoded to new memory."""
    stored: dict[str, Tensor] = {}
    layouts: dict[str, Kind] = {}
    same: dict[str, str] = {}
    expanded = 0
    for name, kind in kinds.items():
        if first := kind.partition("] as ")[2]:
            same[name] = first
            layouts[name] = (*dtype_and_shape(kind, {}), layouts[first][2])
            check_size(*layouts[name])
            continue
        if not kind.endswith("] runs"):
            stored[name] = read_tensor(len(data), header[name], kind)
            layouts[name] = (stored[name].dtype, stored[name].shape, stored[name].size)
            continue
        stored[name] = read_tensor(len(data), header[name], "u8")
        dtype, shape = dtype_and_shape(kind, {})
        layouts[name] = dtype, shape, prod(shape) * dtype.bytes
        check_size(*layouts[name])
        expanded += aligned(layouts[name][2])
    if expanded > MOST_EXPANDED:
        raise BadWeights(f"run-length encoded tensors expand to {expanded} bytes, more than {MOST_EXPANDED}")
    tensors, end = lay_out(layouts, same)
    memory = aligned_memory(end)
    target = np.frombuffer(memory, np.uint8)
    jobs: list[Callable[[], object]] = []
    for name, tensor in stored.items():
        source, to = data[tensor.start : tensor.start + tensor.size], tensors[name]
        if kinds[name].endswith("] runs"):
            jobs += fill_jobs(source, target[to.start : aligned(to.start + to.size)])
        else:
            content = np.frombuffer(source, np.uint8)
            jobs.append(partial(np.copyto, target[to.start : to.start + to.size], content))
    run_in_threads(jobs, thread_count(end))
    return Weights(header_of(tensors), memory.toreadonly(), tensors)
