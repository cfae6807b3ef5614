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
    """A copy of ``array`` with a guard page right behind its last byte or, if not, in front of its first.

    On the other side a guard page follows at the end of the memory page. Its elements are aligned, if
    nothing else.
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
