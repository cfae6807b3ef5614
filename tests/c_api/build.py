"""Programs and libraries that the tests of the C interface build."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from graphwright.c_api import LIBRARY_FOLDER, compiler_flags, linker_flags
from tests.sanitizers import RUNTIME, sanitizer_flags

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "c_api"
SOURCES = ROOT / "src" / "graphwright"
STRICT = ["-Wall", "-Wextra", "-Werror"]


def program(
    source: Path, target: Path, flags: Sequence[str] = (), libraries: Sequence[str] | None = None
) -> Path:
    """``target``, built of one file in C or C++ as the documentation says."""
    compiler = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=gnu11"]
    linked = linker_flags() if libraries is None else libraries
    command = [*compiler, "-O2", *STRICT, *flags, *compiler_flags(), str(source), "-o", str(target), *linked]
    subprocess.run([*command, "-lpthread"], check=True)
    return target


def sanitized_library(folder: Path, sanitizer: str, runtime: Sequence[str]) -> list[str]:
    """Flags that link programs with the interface and the object files ``runtime``, built under a sanitizer
    in ``folder``; their kernels are those of the package.
    """
    sources = [*sorted((SOURCES / "c_api").glob("*.c")), *runtime]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{RUNTIME}"]
    library = folder / "libgraphwright.so"
    command = ["gcc", *flags, *sanitizer_flags(sanitizer), "-o", str(library), *map(str, sources)]
    subprocess.run([*command, "-lpthread", "-ldl"], check=True)
    for kernels in LIBRARY_FOLDER.glob("libgraphwright_kernels_*.so"):
        (folder / kernels.name).symlink_to(kernels)
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lgraphwright"]
