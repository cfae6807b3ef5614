"""The library of precompiled kernels, and the functions that shared objects export."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from graphwright import _native
from graphwright.log import warn_once
from graphwright.support.source_record import changed_sources

LIBRARY_FOLDER = Path(_native.__file__).parent / "runtime" / "native"


@cache
def kernel_library(isa: str) -> _native.Library:
    """The library of precompiled kernels that is part of this installation."""
    path = LIBRARY_FOLDER / f"libgraphwright_kernels_{isa}.so"
    library = _native.open_library(str(path))
    with contextlib.suppress(KeyError):  # only an editable build has a record
        _warn_if_outdated(path, library.text("gw_kernels_sources"))
    return library


def _warn_if_outdated(path: Path, record: str) -> None:
    """Logs a warning if modules that wrote the library at ``path`` have changed: its kernels may then read
    their arguments, or compute sizes of scratch memory, in another way than the compiler does.
    """
    package = LIBRARY_FOLDER.parents[1]
    changed = changed_sources(path, record, package)
    if changed:
        message = "the kernel library was built before %s changed: build it again with pip install -e %s"
        warn_once("outdated kernels", message, _abbreviated(changed), package.parents[1])


def _abbreviated(names: Sequence[str]) -> str:
    """The first name, and the number of others."""
    others = len(names) - 1
    return f"{names[0]} and {others} other file{'s' * (others > 1)}" if others else names[0]


def library_digest(isa: str) -> str:
    """Identifies the version of :func:`kernel_library`."""
    return kernel_library(isa).text("gw_kernels_digest")


def export_faults(code: bytes, functions: Iterable[str]) -> list[str]:
    """Why a shared object cannot be loaded, or the ``functions`` that it does not export."""
    try:
        library = _native.load_library(code)
    except _native.LoadError as error:
        return [f"it cannot be loaded: {error}"]
    faults = []
    for function in functions:
        try:
            library.symbol(function)
        except KeyError:
            faults.append(f"it does not export the function {function}")
    return faults
