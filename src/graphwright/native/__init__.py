"""graphwright in C: where the header and the library are that programs without Python run packages with.

The interface is ``include/graphwright.h``, which documents it; the C files beside it implement it on the
runtime of ``runtime/native``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

INCLUDE_FOLDER: Final = Path(__file__).parent / "include"
"""Holds ``graphwright.h``."""
LIBRARY_FOLDER: Final = Path(__file__).parents[1] / "runtime" / "native"
"""Holds ``libgraphwright.so``, and the kernels that it loads."""


def compiler_flags() -> list[str]:
    """Flags of a compiler for files that include ``graphwright.h``."""
    return [f"-I{INCLUDE_FOLDER}"]


def linker_flags() -> list[str]:
    """Flags of a linker for programs that find the library where it is now."""
    return [f"-L{LIBRARY_FOLDER}", f"-Wl,-rpath,{LIBRARY_FOLDER}", "-lgraphwright"]
