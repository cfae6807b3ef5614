"""When Python's collector of cyclic garbage has nothing to find."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Cycles are left to later: most of what imports and compilations make stays, and would be searched in
    vain, for a tenth of their time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
