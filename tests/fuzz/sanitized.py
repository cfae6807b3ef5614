"""The package with its native code, kernels too, under the address sanitizer, in a folder next to the build.

Its processes cannot have a bounded address space, of which the sanitizer takes terabytes: the sanitizer
bounds their memory instead.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "sanitized"
FLAGS = "-fsanitize=address -fno-omit-frame-pointer"


def build() -> Path:
    """Builds what is not built yet. Returns the folder to import the package from."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "src", FOLDER / "src", dirs_exist_ok=True, ignore=kept)
    shutil.copy2(ROOT / "CMakeLists.txt", FOLDER)
    options = {
        "SKBUILD_STATE": "editable",
        "CMAKE_BUILD_TYPE": "Release",
        "Python_EXECUTABLE": sys.executable,
        "CMAKE_C_FLAGS": FLAGS,
        "CMAKE_CXX_FLAGS": FLAGS,
        "CMAKE_SHARED_LINKER_FLAGS": FLAGS,
        "CMAKE_MODULE_LINKER_FLAGS": FLAGS,
    }
    tools = Path(sys.executable).parent
    path = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    made = FOLDER / "build"
    settings = [f"-D{name}={value}" for name, value in options.items()]
    subprocess.run(["cmake", "-S", FOLDER, "-B", made, "-G", "Ninja", *settings], check=True, env=path,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    subprocess.run(["cmake", "--build", made], check=True, env=path, stdout=subprocess.DEVNULL)
    compiler().write_text(f'#!/bin/sh\nexec gcc {FLAGS} "$@"\n')
    compiler().chmod(0o755)
    return FOLDER / "src"


def compiler() -> Path:
    """The C compiler of generated kernels."""
    return FOLDER / "cc"


def environment(memory: int) -> dict[str, str]:
    """The environment of processes: this package instead of the installed one, and at most ``memory``
    bytes.
    """
    preloaded = [_library("libasan.so"), _library("libstdc++.so")]  # whose throw the sanitizer intercepts
    limit = memory >> 20
    options = {
        "detect_leaks": 0,
        "allocator_may_return_null": 1,
        "max_allocation_size_mb": limit,
        "hard_rss_limit_mb": limit,
        "handle_segv": 0,
    }
    paths = (FOLDER / "src", ROOT, sysconfig.get_paths()["purelib"])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "LD_PRELOAD": " ".join(preloaded),
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in options.items()),
        "FUZZ_CC": shlex.quote(str(compiler())),
    }


def _library(name: str) -> str:
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
