"""Loading a target into the native runtime: kernels found by name, weights handed over, tasks encoded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from graphwright import _native
from graphwright.errors import Diagnostic, PackageError
from graphwright.ir.types import DType
from graphwright.lower.encode import encode
from graphwright.lower.tasks import KernelRef
from graphwright.package.package import Package, Target
from graphwright.runtime.hostcall import host_callable

LIBRARY_FOLDER = Path(_native.__file__).parent / "runtime" / "native"


def load_program(package: Package, target: Target) -> _native.Program:
    """The target's tasks, ready to run. Raises PackageError where a kernel is missing or the tasks are malformed."""
    libraries = {name: _native.load_library(data) for name, data in target.objects.items()}
    library = _native.open_library(str(LIBRARY_FOLDER / f"libgraphwright_kernels_{target.isa}.so"))
    try:
        return _native.Program(
            encode(target.program),
            package.weights.data,
            [_address(ref, library, libraries) for ref in target.program.kernels],
            hosts=[host_callable(h) for h in target.program.hosts],
            dtypes=[native_dtype(port.dtype) for port in target.program.outputs],
            libraries=[library, *libraries.values()],
        )
    except (_native.ProgramError, _native.LoadError, OverflowError) as error:
        raise PackageError(Diagnostic("bad-program", f"the task list is malformed: {error}")) from error


def _address(ref: KernelRef, library: _native.Library, generated: Mapping[str, _native.Library]) -> int:
    for source in generated.values() if ref.module else (library,):
        try:
            return source.symbol(ref.symbol)
        except KeyError:
            continue
    raise PackageError(
        Diagnostic("missing-kernel", f"kernel {ref.symbol!r} is not there", hint="compile the model with this version")
    )


def native_dtype(dtype: DType) -> np.dtype[np.generic]:
    """The type in which the native runtime sees elements: types of ml_dtypes as unsigned integers of their size."""
    plain = dtype.numpy
    return np.dtype(f"u{dtype.bytes}") if plain.kind == "V" or plain.isbuiltin != 1 else plain


