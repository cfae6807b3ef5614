"""The C interface, with which programs in C and C++ run packages without Python: the paths of its header and
its library.

``include/graphwright.h`` declares and documents the interface. The C files in this folder implement it on the
native runtime (``runtime/native``).
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
