"""``python -m graphwright.c_api``: prints compiler and linker flags for programs in C and C++."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from graphwright.c_api import INCLUDE_FOLDER, LIBRARY_FOLDER, compiler_flags, linker_flags


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the requested flags on one line, in this order; flags are quoted for a shell if they must be."""
    parser = argparse.ArgumentParser(
        prog="python -m graphwright.c_api",
        description="Flags for programs in C and C++ that run packages: "
        "cc program.c $(python -m graphwright.c_api --cflags --libs)",
    )
    parser.add_argument("--cflags", action="store_true", help="flags of the compiler")
    parser.add_argument("--libs", action="store_true", help="flags of the linker")
    parser.add_argument("--include-dir", action="store_true", help="the folder of graphwright.h")
    parser.add_argument("--library-dir", action="store_true", help="the folder of libgraphwright.so")
    given = parser.parse_args(arguments)
    parts: list[str] = []
    if given.cflags:
        parts += map(shlex.quote, compiler_flags())
    if given.libs:
        parts += map(shlex.quote, linker_flags())
    if given.include_dir:
        parts.append(str(INCLUDE_FOLDER))
    if given.library_dir:
        parts.append(str(LIBRARY_FOLDER))
    if not parts:
        parser.error("say what to print: --cflags, --libs, --include-dir or --library-dir")
    print(*parts)


if __name__ == "__main__":
    main()
