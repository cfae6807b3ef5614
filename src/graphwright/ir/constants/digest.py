"""Digests of tensors: a hash of dtype, shape and content.

Large contents are first condensed to a short hash by a function that is as fast as memory
(``_native.condense_all``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from graphwright._native import condense_all
from graphwright.ir.arrays import is_repeated
from graphwright.ir.constants.mapped import mapped_file
from graphwright.support.background import BackgroundTask

_WHOLE = 1 << 16
"""The most bytes of content that are hashed without condensing."""


class BackgroundHashes:
    """Condenses contents in another thread, while the caller does something else."""

    def __init__(self, contents: Sequence[memoryview]) -> None:
        self._contents = contents  # kept alive, so that addresses stay valid
        self._numbers = {_address(np.frombuffer(c, np.uint8)): k for k, c in enumerate(contents)}
        mapped = all(mapped_file(content) is not None for content in contents)
        self._condensed = BackgroundTask(partial(condense_all, contents, mapped))
        self._condensed.start()

    def find(self, data: np.ndarray[Any, Any]) -> bytes | None:
        """The condensed form of ``data`` if it is exactly one of the contents, else None."""
        number = self._numbers.get(_address(data))
        if number is None or self._contents[number].nbytes != data.size:
            return None
        return self._condensed.result()[number]


def digest(array: np.ndarray[Any, Any], background: BackgroundHashes | None = None) -> str:
    """The digest of ``array``, which is contiguous or repeats one element."""
    kind = f"{array.dtype.name}{array.shape}".encode()
    if is_repeated(array):
        return hash_of(b"repeated ", kind, array[(0,) * array.ndim].tobytes())
    if array.dtype == object:
        return hash_of(kind, repr(array.tolist()).encode())
    data = array.reshape(-1).view(np.uint8)
    if data.size <= _WHOLE:
        return hash_of(kind, data.data)
    found = None if background is None else background.find(data)
    if found is None:
        (found,) = condense_all([data.data], mapped_file(data) is not None)
    return hash_of(kind, found)


def hash_of(*texts: bytes | memoryview) -> str:
    """A hash of ``texts`` as 20 hexadecimal digits."""
    state = hashlib.blake2b(digest_size=10)
    for text in texts:
        state.update(text)
    return state.hexdigest()


def _address(data: np.ndarray[Any, Any]) -> int:
    address: int = data.__array_interface__["data"][0]
    return address
