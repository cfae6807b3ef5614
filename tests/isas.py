"""Which instruction sets tests run, and which they only compile for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from graphwright import _native
from graphwright.runtime.devices.this_cpu import LEVELS
from graphwright.targets.cpu.isa import ISAS

RUNNABLE: Final = [name for name in ISAS if LEVELS.index(name) <= LEVELS.index(_native.isa())]
"""Names of those that this CPU has, the least first."""


@contextmanager
def compiling_on(isa: str) -> Iterator[None]:
    """Compiles as on a CPU with ``isa``, which this CPU may not support."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "isa", lambda: isa)
        yield
