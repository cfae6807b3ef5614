"""Packs the weights of a compiled model: equal bytes are stored once."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from graphwright.ir.arrays import Array, is_repeated, np
from graphwright.ir.constants.deferred import Deferred
from graphwright.ir.constants.mapped import equal_bytes, release
from graphwright.ir.dtypes import dtype_of
from graphwright.package.hashes import Piece
from graphwright.package.parallel_fill import PART, run_in_threads, thread_count
from graphwright.package.read_archive import aligned_memory
from graphwright.package.weights import Region, Weights, digests_of, runs_of, short_hash, stored_pieces
from graphwright.package.weights_header import Kind, Tensor, aligned, header_of, lay_out
from graphwright.package.zip_directory import ALIGNMENT

_PROBES = 64
"""The number of sampled bytes that distinguish most tensors."""


class UnpackedWeights:
    """Weights that stay in their arrays, or in the mapped source file, until they are written. The written
    member is the same as that of :func:`pack_weights`, but it is never copied to one block of memory.
    """

    def __init__(self, arrays: Mapping[str, Array | Deferred]) -> None:
        self.arrays = {name: a.make() if isinstance(a, Deferred) else a for name, a in arrays.items()}
        kinds = {name: _kind(array) for name, array in self.arrays.items()}
        tensors, _ = lay_out(kinds)
        self.tensors, _ = lay_out(kinds, _same_bytes(tensors, self._content))

    def pieces(self) -> list[Piece]:
        """As :meth:`Weights.pieces`."""
        return stored_pieces(self.tensors, runs_of(self.tensors, self._lines), self._bytes)

    def digests(self) -> dict[str, str]:
        """As :meth:`Weights.digests`."""
        return digests_of(self.tensors, self._bytes)

    def _content(self, name: str) -> Array:
        return _bytes(np.ascontiguousarray(self.arrays[name]))

    def _bytes(self, name: str) -> memoryview:
        return self._content(name).data

    def _lines(self, name: str) -> Array:
        content = self._content(name)
        return np.pad(content, (0, padding)) if (padding := -content.size % ALIGNMENT) else content


def pack_weights(arrays: Mapping[str, Array | Deferred], existing: Weights | None = None) -> Weights:
    """Packs ``arrays`` into one block of memory, with equal bytes stored once. The weights begin with
    ``existing``, in the same memory if its region has room.

    The reference to each array is dropped when it has been copied, so that its memory can be freed.
    """
    held, region = dict(arrays), None if existing is None else existing.region
    del arrays
    if existing is not None and region is not None:
        with region.lock:
            if region.has_room(existing, sum(aligned(_kind(each)[2]) for each in held.values())):
                return _follow(existing, region, held)
    if existing is not None:
        held = {**existing.arrays, **held}
    _, size = lay_out({name: _kind(array) for name, array in held.items()})
    data = aligned_memory(size)
    tensors, end = _write(held, data, 0)
    return Weights(header_of(tensors), data[:end].toreadonly(), tensors)


def no_weights() -> Weights:
    """Weights without tensors."""
    return pack_weights({})


def _follow(existing: Weights, region: Region, held: dict[str, Array | Deferred]) -> Weights:
    """``existing`` with the arrays of ``held`` added, in the memory of ``region``."""
    added, region.end = _write(held, region.memory, region.end)
    tensors = {**existing.tensors, **added}
    return Weights(header_of(tensors), region.memory[: region.end].toreadonly(), tensors, region=region)


def _write(held: dict[str, Array | Deferred], data: memoryview, start: int) -> tuple[dict[str, Tensor], int]:
    """Writes the arrays of ``held`` to ``data`` from ``start`` on and empties ``held``. Returns the location
    of each tensor, and the end of the last.
    """
    kinds = {name: _kind(array) for name, array in held.items()}
    tensors, end = lay_out(kinds, start=start)
    target = np.frombuffer(data, np.uint8)
    targets = {name: target[t.start : t.start + t.size] for name, t in tensors.items()}
    jobs = deque(job for name, array in held.items() for job in _jobs(targets[name], array))
    held.clear()  # each array can be freed after the last job that reads it
    run_in_threads(jobs, thread_count(end - start))
    if same := _same_bytes(tensors, targets.__getitem__):
        before = tensors
        tensors, end = lay_out(kinds, same, start)
        for name, tensor in tensors.items():  # tensors only move towards the beginning
            at, size = before[name].start, tensor.size
            if name not in same and tensor.start < at:
                target[tensor.start : tensor.start + size] = target[at : at + size]
    for tensor in tensors.values():
        stop = tensor.start + tensor.size
        data[stop : aligned(stop)] = bytes(-stop % ALIGNMENT)
    return tensors, end


def _jobs(target: Array, array: Array | Deferred) -> Iterator[Callable[[], object]]:
    """Jobs that write the bytes of ``array`` to ``target``."""
    if isinstance(array, Deferred):
        yield from array.jobs(target.view(array.dtype.numpy).reshape(array.shape))
    elif is_repeated(array) and array.dtype != object:
        yield partial(np.copyto, target.view(array.dtype), array[(0,) * array.ndim])
    elif not array.flags.c_contiguous:
        yield partial(np.copyto, target.view(array.dtype).reshape(array.shape), array)
    else:
        source = _bytes(array)
        for start in range(0, len(target), PART):
            yield partial(_copy, target[start : start + PART], source[start : start + PART])


def _copy(target: Array, source: Array) -> None:
    np.copyto(target, source)
    release(source)


def _kind(array: Array | Deferred) -> Kind:
    if isinstance(array, Deferred):
        return array.dtype, array.shape, array.nbytes
    return dtype_of(array), array.shape, _bytes(array).size if array.dtype == object else array.nbytes


def _same_bytes(tensors: Mapping[str, Tensor], content: Callable[[str], Array]) -> dict[str, str]:
    """For each tensor that equals an earlier one, the first tensor with the same bytes.

    Size and a sample of bytes distinguish most tensors. The others are hashed once, and tensors with equal
    hashes are compared.
    """
    alike: dict[tuple[int, bytes], list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.size:
            probes = content(name)[:: max(1, tensor.size // _PROBES)]
            alike.setdefault((tensor.size, probes.tobytes()), []).append(name)
            release(probes)
    firsts: dict[tuple[int, str], str] = {}
    same: dict[str, str] = {}
    for (size, _), names in alike.items():
        for name in names if len(names) > 1 else ():
            key = size, short_hash(content(name).data)
            first = firsts.setdefault(key, name)
            if first != name and equal_bytes(content(first), content(name)):
                same[name] = first
    return same


def _bytes(array: Array) -> Array:
    if array.dtype == object:
        return np.frombuffer(json.dumps(array.ravel().tolist()).encode(), np.uint8)
    return array.reshape(-1).view(np.uint8)
