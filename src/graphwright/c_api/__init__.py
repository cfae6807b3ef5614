"""The C interface of graphwright: the paths of its header and library, with which programs without Python run
packages.

The interface is ``include/graphwright.h``, which documents it; the C files beside it implement it on the
runtime of ``runtime/native``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

INCLUDE_FOLDER: Final = Path(__file__).parent / "include"
"""The folder of ``graphwright.h``."""
LIBRARY_FOLDER: Final = Path(__file__).parents[1] / "runtime" / "native"
"""The folder of ``libgraphwright.so`` and of the kernels that it loads."""


def compiler_flags() -> list[str]:
    """Flags of a compiler for files that include ``graphwright.h``."""
    return [f"-I{INCLUDE_FOLDER}"]


def linker_flags() -> list[str]:
    """Flags of a linker for programs that find the library where it is now."""
    return [f"-L{LIBRARY_FOLDER}", f"-Wl,-rpath,{LIBRARY_FOLDER}", "-lgraphwright"]
