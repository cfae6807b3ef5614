"""Programs and libraries that the tests of the C interface build."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from graphwright.native import LIBRARY_FOLDER, compiler_flags, linker_flags

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "native"
SOURCES = ROOT / "src" / "graphwright"
STRICT = ["-Wall", "-Wextra", "-Werror"]
SANITIZERS = {"address": "address,undefined", "thread": "thread"}


def sanitizer_flags(name: str) -> list[str]:
    return [
        f"-fsanitize={SANITIZERS[name]}",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
        "-g",
        "-O1",
    ]


def program(
    source: Path, target: Path, flags: Sequence[str] = (), libraries: Sequence[str] | None = None
) -> Path:
    """``target``, built of one file in C or C++ as the documentation says."""
    compiler = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=gnu11"]
    linked = linker_flags() if libraries is None else libraries
    command = [*compiler, "-O2", *STRICT, *flags, *compiler_flags(), str(source), "-o", str(target), *linked]
    subprocess.run([*command, "-lpthread"], check=True)
    return target


def sanitized_library(folder: Path, sanitizer: str) -> list[str]:
    """Flags that link programs with the interface and the runtime, built under a sanitizer in ``folder``;
    their kernels are those of the package.
    """
    native = SOURCES / "runtime" / "native"
    sources = [*sorted(native.glob("*.c")), *sorted((SOURCES / "native").glob("*.c"))]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{native}"]
    library = folder / "libgraphwright.so"
    command = ["gcc", *flags, *sanitizer_flags(sanitizer), "-o", str(library), *map(str, sources)]
    subprocess.run([*command, "-lpthread", "-ldl"], check=True)
    for kernels in LIBRARY_FOLDER.glob("libgraphwright_kernels_*.so"):
        (folder / kernels.name).symlink_to(kernels)
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lgraphwright"]
