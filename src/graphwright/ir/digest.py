"""What tensors are called by: a hash of their type and content.

Large contents are condensed first, at memory's speed (see ``_native.condense_all``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from graphwright._native import condense_all
from graphwright.ir.arrays import is_repeated
from graphwright.ir.mapped import mapped_file
from graphwright.support.background import BackgroundTask

_WHOLE = 1 << 16
"""Bytes of content that are hashed as they are; more are condensed first."""


class Ahead:
    """Contents that are condensed in another thread, while the caller does something else."""

    def __init__(self, contents: Sequence[memoryview]) -> None:
        self._contents = contents  # which stay where they are
        self._places = {_address(np.frombuffer(c, np.uint8)): k for k, c in enumerate(contents)}
        mapped = all(mapped_file(content) is not None for content in contents)
        self._made = BackgroundTask(partial(condense_all, contents, mapped))

    def find(self, data: np.ndarray[Any, Any]) -> bytes | None:
        """What stands for ``data``, if it is all of one of the contents."""
        place = self._places.get(_address(data))
        if place is None or self._contents[place].nbytes != data.size:
            return None
        return self._made.result()[place]


def digest(array: np.ndarray[Any, Any], ahead: Ahead | None = None) -> str:
    """The name of an array that is contiguous or repeated by dtype, shape and content."""
    kind = f"{array.dtype.name}{array.shape}".encode()
    if is_repeated(array):
        return name_of(b"repeated ", kind, array[(0,) * array.ndim].tobytes())
    if array.dtype == object:
        return name_of(kind, repr(array.tolist()).encode())
    data = array.reshape(-1).view(np.uint8)
    if data.size <= _WHOLE:
        return name_of(kind, data.data)
    found = None if ahead is None else ahead.find(data)
    if found is None:
        (found,) = condense_all([data.data], mapped_file(data) is not None)
    return name_of(kind, found)


def name_of(*texts: bytes | memoryview) -> str:
    """A name of 20 hexadecimal digits."""
    state = hashlib.blake2b(digest_size=10)
    for text in texts:
        state.update(text)
    return state.hexdigest()


def _address(data: np.ndarray[Any, Any]) -> int:
    place: int = data.__array_interface__["data"][0]
    return place
