"""The constant pool of a module: its tensors, stored once per content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from graphwright.ir.arrays import Array, is_repeated
from graphwright.ir.constants.deferred import Deferred, Packing
from graphwright.ir.constants.digest import BackgroundHashes, digest, hash_of
from graphwright.ir.constants.mapped import equal_bytes, release
from graphwright.ir.op import ConstRef
from graphwright.ir.types import DTYPES, dtype_of

_REPEATED = 1 << 20
"""Bytes above which an array that repeats one element is stored as a broadcast."""


class ConstantPool:
    """Tensors identified by a hash of their content, so that equal tensors are stored once.

    Arrays are read-only. They are contiguous, except broadcasts of one element and transposed views.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Array | Deferred] = {}
        self._background: BackgroundHashes | None = None
        self.packings: dict[str, Packing] = {}
        """How packed tensors were made, by digest."""

    def hash_in_background(self, contents: Sequence[memoryview]) -> None:
        """Starts to hash ``contents`` in another thread: the memory of arrays that will be added later."""
        self._background = BackgroundHashes(contents)

    def add(self, array: Array) -> ConstRef:
        """Stores ``array`` and returns its reference. A contiguous array in native byte order is not copied.

        A large array that repeats one element (:func:`is_repeated`) is stored as a broadcast, and takes no
        memory.
        """
        dtype = dtype_of(array).numpy
        if is_repeated(array) and array.nbytes > _REPEATED and not array.dtype.hasobject:
            array = np.broadcast_to(array[(0,) * array.ndim].astype(dtype), array.shape)
        else:
            array = np.ascontiguousarray(array, dtype).reshape(array.shape)
        name = digest(array, self._background)
        while not _same_content(self._arrays.setdefault(name, array), array):
            name = hash_of(name.encode())  # a hash collision
        if self._arrays[name] is array:
            self._arrays[name] = _read_only(array)
        return ConstRef(name)

    def add_derived(
        self,
        source: ConstRef,
        how: str,
        tensor: Deferred,
        *,
        packing: Packing | None = None,
    ) -> ConstRef:
        """Stores the deferred ``tensor``, which is computed from ``source``. The text ``how`` describes
        the computation: together with the source it identifies the content.

        ``packing``: given if the source, or a view of it, can be unpacked from the tensor.
        """
        name = hash_of(f"{how}#{source.digest}".encode())
        self._arrays.setdefault(name, tensor)
        if packing is not None:
            self.packings[name] = packing
        return ConstRef(name)

    def add_transposed(self, source: ConstRef, axes: Sequence[int]) -> ConstRef:
        """Stores a transposed view of ``source``."""
        name = hash_of(f"axes {tuple(axes)}#{source.digest}".encode())
        self._arrays.setdefault(name, self[source].transpose(axes))
        return ConstRef(name)

    def restore(self, name: str, array: Array) -> None:
        """Stores ``array`` under the digest ``name`` that it had before, in this or in another pool.

        Raises ValueError if ``name`` is not a digest.
        """
        if not _DIGEST.fullmatch(name):
            raise ValueError(f"{name!r} is not a digest")
        self._arrays[name] = _read_only(array)

    def merge(self, other: ConstantPool) -> None:
        """Adds the tensors of ``other``."""
        self._arrays |= other._arrays
        self.packings |= other.packings

    def copy(self) -> ConstantPool:
        """Another pool with the same arrays."""
        pool = ConstantPool()
        pool._arrays = dict(self._arrays)
        pool.packings = dict(self.packings)
        return pool

    def stored(self, ref: ConstRef) -> Array | Deferred:
        """The tensor ``ref``: an array, or a deferred array."""
        return self._arrays[ref.digest]

    def take(self, ref: ConstRef) -> Array | Deferred:
        """Moves the tensor ``ref`` out of the pool. It must not be read until :meth:`restore` returns it."""
        taken, self._arrays[ref.digest] = self._arrays[ref.digest], _MOVED_OUT
        return taken

    def release(self) -> None:
        """Releases the pages of mapped files that hold tensors; a later read loads them again."""
        for held in self._arrays.values():
            if not isinstance(held, Deferred):
                release(held)

    def __getitem__(self, ref: ConstRef) -> Array:
        held = self._arrays[ref.digest]
        if isinstance(held, Deferred):
            held = self._arrays[ref.digest] = _read_only(held.make())
        return held

    def __contains__(self, ref: ConstRef) -> bool:
        return ref.digest in self._arrays

    def __iter__(self) -> Iterator[ConstRef]:
        return map(ConstRef, list(self._arrays))

    def __len__(self) -> int:
        return len(self._arrays)

    def keep(self, refs: set[ConstRef]) -> None:
        """Drops every tensor that is not in ``refs``."""
        self._arrays = {d: a for d, a in self._arrays.items() if ConstRef(d) in refs}


def _same_content(held: Array | Deferred, array: Array) -> bool:
    """Whether two arrays with equal hashes are equal bit by bit. A deferred array counts as equal."""
    if held is array or isinstance(held, Deferred) or array.dtype.hasobject:
        return True
    if (held.dtype, held.shape) != (array.dtype, array.shape):
        return False
    if is_repeated(array) and is_repeated(held):
        first = (0,) * array.ndim
        return bool(held[first].tobytes() == array[first].tobytes())
    return equal_bytes(*(np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (held, array)))


_MOVED_OUT = Deferred(DTYPES["u8"], (0,), lambda array: ())


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


_DIGEST = re.compile("[0-9a-f]{20}")
