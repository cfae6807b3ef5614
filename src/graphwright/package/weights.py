"""Weights as one safetensors member, with every tensor aligned to 64 bytes.

The format (an 8-byte length, a JSON header, and the data without gaps) has no alignment, so tensors called
``pad...`` fill the gaps. Dtypes that it lacks are stored as bytes, and strings as JSON; their dtype and shape
are in the metadata of the header. The metadata also mark a tensor that shares the bytes of an earlier one
(``as NAME``), and in files a tensor that is run-length encoded (``runs``, see
:mod:`graphwright.package.run_length`).

The safetensors library can read these members; only its NumPy frontend lacks 8-bit floats.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from math import prod
from typing import Any

from graphwright._native import condense_all
from graphwright.ir.arrays import Array, is_repeated, np
from graphwright.ir.constants.deferred import Deferred, Packing
from graphwright.ir.constants.mapped import equal_bytes, mapped_file, release
from graphwright.ir.dtypes import STRING, dtype_of
from graphwright.package.archive import ALIGNMENT, aligned_memory, reserved_memory
from graphwright.package.header import (
    BadWeights,
    Kind,
    Tensor,
    aligned,
    check_size,
    dtype_and_shape,
    first_at_location,
    header_of,
    lay_out,
    read_tensor,
)
from graphwright.package.parts import PART, run_in_threads, thread_count
from graphwright.package.run_length import fill_jobs, find_runs
from graphwright.records import dataclass, field
from graphwright.support.fork_lock import ForkLock

Piece = bytes | memoryview
_CONDENSED = 1 << 16
"""Larger contents are condensed by a fast hash before they are hashed (see ``_native.condense_all``)."""
MOST_EXPANDED = 1 << 31
"""The most bytes that run-length encoded tensors of a file may expand to."""


class Region:
    """Reserved memory for the weights of several packages that extend each other: the weights of each begin
    with those of the one before. Pages are allocated when they are written.
    """

    def __init__(self, limit: int) -> None:
        self.memory, self.end, self.lock = reserved_memory(limit), 0, ForkLock()

    def weights(self) -> Weights:
        """Empty weights at its start."""
        return Weights(header_of({}), self.memory[:0].toreadonly(), {}, region=self)

    def has_room(self, existing: Weights, size: int) -> bool:
        """Whether ``size`` bytes fit after ``existing``, and nothing follows it yet."""
        return self.end == len(existing.data) and self.end + size <= len(self.memory)


@dataclass(frozen=True)
class Weights:
    """Weights in memory: the header with its length, and the aligned data."""

    header: bytes
    data: memoryview
    tensors: Mapping[str, Tensor]
    packings: Mapping[str, Packing] = field(default_factory=dict)
    """How tensors were packed; known from the compilation until the package is written."""
    region: Region | None = None
    """The region that may be extended with more weights."""

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The tensors as arrays: read-only views of the data, except strings."""
        return {name: self._array(name) for name in self.tensors}

    def pieces(self) -> list[Piece]:
        """The member as stored in a file: header and data, with repetitive tensors run-length encoded."""
        runs = _all_runs(self.tensors, self._lines)
        if not runs:
            return [self.header, self.data]
        return _pieces(self.tensors, runs, self._bytes)

    def _lines(self, name: str) -> Array:
        tensor = self.tensors[name]
        return np.frombuffer(self.data[tensor.start : tensor.start + aligned(tensor.size)], np.uint8)

    def with_own_indices(self) -> Weights:
        """These weights, read-only. If they are mapped from a file, the pages of wide integers are copied:
        kernels may use these as indices, so they must not change after they were checked.
        """
        if not self.data.readonly:
            for name, tensor in self.tensors.items():
                if tensor.dtype.is_integer and tensor.dtype.bits > 8:  # narrower integers are never indices
                    _write_again(self._bytes(name))
        return Weights(self.header, self.data.toreadonly(), self.tensors)

    def index_digest(self) -> str:
        """SHA-256 of the header and of all tensors that are not floats, whose elements may be indices."""
        state = hashlib.sha256(self.header)
        for name, tensor in self.tensors.items():
            if not tensor.dtype.is_float:
                state.update(self._bytes(name))
        return state.hexdigest()

    def digests(self) -> dict[str, str]:
        """A hash of the bytes of each tensor; tensors that share bytes have one entry.

        The hash runs at memory bandwidth. It detects damage, but not deliberate changes.
        """
        return _digests(self.tensors, self._bytes)

    def _bytes(self, name: str) -> memoryview:
        tensor = self.tensors[name]
        return self.data[tensor.start : tensor.start + tensor.size]

    def _array(self, name: str) -> Array:
        tensor = self.tensors[name]
        if tensor.dtype is STRING:
            return _strings(self._bytes(name), tensor.shape)
        return np.ndarray(tensor.shape, tensor.dtype.numpy, self._bytes(name))


def _write_again(data: memoryview) -> None:
    """Writes memory to itself, so that pages of a private mapping become copies of this process."""
    for start in range(0, len(data), PART):
        part = data[start : start + PART]
        part[:] = bytes(part)


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
        return _pieces(self.tensors, _all_runs(self.tensors, self._lines), self._bytes)

    def digests(self) -> dict[str, str]:
        """As :meth:`Weights.digests`."""
        return _digests(self.tensors, self._bytes)

    def _content(self, name: str) -> Array:
        return _bytes(np.ascontiguousarray(self.arrays[name]))

    def _bytes(self, name: str) -> memoryview:
        return self._content(name).data

    def _lines(self, name: str) -> Array:
        content = self._content(name)
        return np.pad(content, (0, padding)) if (padding := -content.size % ALIGNMENT) else content


def _pieces(
    tensors: Mapping[str, Tensor], runs: Mapping[str, bytes], content: Callable[[str], memoryview]
) -> list[Piece]:
    """The header, and the padded bytes of each tensor; ``runs`` are the encodings of repetitive tensors."""
    stored: list[Piece] = [header_of(tensors, {name: len(data) for name, data in runs.items()})]
    for name, first in first_at_location(tensors).items():
        if name == first:
            piece = runs[name] if name in runs else content(name)
            stored += [piece, bytes(-len(piece) % ALIGNMENT)]
    return stored


def _digests(tensors: Mapping[str, Tensor], content: Callable[[str], memoryview]) -> dict[str, str]:
    found: dict[str, str] = {}
    own = [name for name, first in first_at_location(tensors).items() if name == first]

    def hash_one(name: str) -> None:
        found[name] = _hash(content(name))

    jobs = [partial(hash_one, name) for name in sorted(own, key=lambda n: -tensors[n].size)]
    run_in_threads(jobs, thread_count(sum(tensors[name].size for name in own)))
    return {name: found[name] for name in own}


def _all_runs(tensors: Mapping[str, Tensor], lines: Callable[[str], Array]) -> dict[str, bytes]:
    """The encodings of repetitive tensors, by name; ``lines`` returns bytes padded to whole lines."""
    found: dict[str, bytes] = {}
    bytes_left = MOST_EXPANDED
    for name, first in first_at_location(tensors).items():
        size = aligned(tensors[name].size)
        if name != first or tensors[name].dtype is STRING or size > bytes_left:
            continue
        content = lines(name)
        runs = find_runs(content)
        release(content)
        if runs is not None:
            found[name] = runs
            bytes_left -= size
    return found


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


def _follow(existing: Weights, region: Region, held: dict[str, Array | Deferred]) -> Weights:
    """``existing``, extended by the arrays of ``held`` in its region."""
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
            key = size, _hash(content(name).data)
            first = firsts.setdefault(key, name)
            if first != name and equal_bytes(content(first), content(name)):
                same[name] = first
    return same


def _hash(content: memoryview) -> str:
    text: Piece = content
    if len(content) > _CONDENSED:
        (text,) = condense_all([content], mapped_file(content) is not None)
    return hashlib.blake2b(text, digest_size=10).hexdigest()


_PROBES = 64
"""The number of sampled bytes that distinguish most tensors."""


def no_weights() -> Weights:
    """Weights without tensors."""
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
