"""Arrays whose memory ends, or begins, at a page that may not be touched."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


def guarded(array: Array, *, behind: bool = True) -> Array:
    """A copy of ``array`` with a guard page directly after its last byte, or directly before its first one if
    not ``behind``.

    On the other side, the guard page begins where the last page of the array ends. The array is aligned only
    to the size of its elements.
    """
    size = max(1, array.nbytes)
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for start in (address, address + (pages + 1) * PAGE):
        if _libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(PAGE), _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = PAGE + (pages * PAGE - size if behind else 0)
    made: Array = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    made[...] = array
    return made
