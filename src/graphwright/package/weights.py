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
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from math import prod

from graphwright._native import condense_all
from graphwright.ir.arrays import Array, np
from graphwright.ir.constants.deferred import Packing
from graphwright.ir.constants.mapped import mapped_file, release
from graphwright.ir.dtypes import STRING
from graphwright.package.hashes import Piece
from graphwright.package.parallel_fill import PART, run_in_threads, thread_count
from graphwright.package.read_archive import reserved_memory
from graphwright.package.run_length import find_runs
from graphwright.package.weights_header import (
    Tensor,
    aligned,
    first_at_location,
    header_of,
)
from graphwright.package.zip_directory import ALIGNMENT
from graphwright.records import dataclass, field
from graphwright.support.fork_lock import ForkLock

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
        runs = runs_of(self.tensors, self._lines)
        if not runs:
            return [self.header, self.data]
        return stored_pieces(self.tensors, runs, self._bytes)

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
        return digests_of(self.tensors, self._bytes)

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


def stored_pieces(
    tensors: Mapping[str, Tensor], runs: Mapping[str, bytes], content: Callable[[str], memoryview]
) -> list[Piece]:
    """The header, and the padded bytes of each tensor; ``runs`` are the encodings of repetitive tensors."""
    stored: list[Piece] = [header_of(tensors, {name: len(data) for name, data in runs.items()})]
    for name, first in first_at_location(tensors).items():
        if name == first:
            piece = runs[name] if name in runs else content(name)
            stored += [piece, bytes(-len(piece) % ALIGNMENT)]
    return stored


def digests_of(tensors: Mapping[str, Tensor], content: Callable[[str], memoryview]) -> dict[str, str]:
    """The hashes of :meth:`Weights.digests`; ``content`` returns the bytes of a tensor."""
    found: dict[str, str] = {}
    own = [name for name, first in first_at_location(tensors).items() if name == first]

    def hash_one(name: str) -> None:
        found[name] = short_hash(content(name))

    jobs = [partial(hash_one, name) for name in sorted(own, key=lambda n: -tensors[n].size)]
    run_in_threads(jobs, thread_count(sum(tensors[name].size for name in own)))
    return {name: found[name] for name in own}


def runs_of(tensors: Mapping[str, Tensor], lines: Callable[[str], Array]) -> dict[str, bytes]:
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


def short_hash(content: memoryview) -> str:
    """A hash that detects damage, but not deliberate changes."""
    text: Piece = content
    if len(content) > _CONDENSED:
        (text,) = condense_all([content], mapped_file(content) is not None)
    return hashlib.blake2b(text, digest_size=10).hexdigest()


def _strings(data: memoryview, shape: tuple[int, ...]) -> Array:
    array = np.empty(prod(shape), object)
    array[:] = json.loads(bytes(data))
    array.flags.writeable = False
    return array.reshape(shape)
